// Adaptive experiments in a page: by itself, or on an aline service.
//
//   import * as aline from "./aline/aline.js";
//   const model = await aline.load("./psychometric/"); // aline export psychometric --web psychometric
//   const experiment = new aline.LocalExperiment(model, { target: ["threshold"], trials: 30 });
//   while (!(await experiment.status()).finished) {
//     const trial = await experiment.ask(); // trial.design.stimulus
//     await experiment.tell(trial, await respond(trial.design.stimulus));
//   }
//   const { threshold } = await experiment.posterior(); // { mean, std, interval }
//
// On a service the same experiment is `await new aline.Client(url).create("psychometric", settings)`.

export { AlineError } from "./errors.js";
export { LocalClient } from "./local/client.js";
export { LocalExperiment } from "./local/experiment.js";
export { forget } from "./local/journal.js";
export { load } from "./local/model.js";
export { Beta, Exponential, Gamma, HalfNormal, LogNormal, Normal, Uniform } from "./local/priors.js";
export { keepOffline } from "./offline.js";
export { Client, Experiment } from "./remote.js";
