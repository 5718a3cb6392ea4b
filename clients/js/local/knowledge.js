// What is known before an experiment: values of parameters, and priors other than the task's.
//
// As experiment/knowledge.py has it: a journal keeps name -> { known: value }, a prior as cards have it,
// or the moments of an earlier posterior on the network's scale. The network takes a normal for each
// parameter on its scale; where a prior is not one there, the normal with the same mean and spread.

import { AlineError } from "../errors.js";
import { ndtri } from "./normal.js";
import { isPosterior } from "./posterior.js";
import { FAMILIES, quantilesOf } from "./priors.js";

const GRID = 2001; // quantiles that stand for a prior
const LEVELS = Array.from({ length: GRID }, (_, i) => (i + 0.5) / GRID);
const OUTSIDE = 1e-3; // share of a prior's mass that may lie beyond the task's
const NARROWEST = 0.009, WIDEST = 1.05; // spreads that the network was trained with, but for rounding
const FARTHEST = 2.7; // the same of means
const BENT = 0.1; // standard deviations that a prior's quantiles may differ from the normal's: beyond, Python weighs draws
const KNOWN = 1e-3; // the standard deviation of a value that is known
const DRAWN = 1 / 4096; // probability beyond which nobody looks at an earlier posterior

const short = (value) => Number(value.toPrecision(6));
const shown = (value) => JSON.stringify(value) ?? String(value);
const refuse = (sentence) => { throw new AlineError(422, sentence); };

/** What a user says is known, checked, as a journal keeps it. */
export function readKnowledge(model, known, prior) {
  const isSaid = Object.keys(known ?? {}).length || (known && typeof known !== "object") || prior != null;
  if (!isSaid) return {};
  if (!model.takesPriors) refuse(`this model of ${model.name} was trained with the task's own priors alone: train one that takes others, train(task, model={"priors": True}) or aline train --priors`);
  const found = {};
  for (const [name, value] of named("known", known)) found[name] = readKnown(model, name, value);
  if (isPosterior(prior)) return { ...ofPosterior(model, prior), ...found };
  for (const [name, one] of named("prior", prior)) {
    if (name in found) refuse(`${name} has a prior and is known: give one of them`);
    found[name] = readPrior(model, name, one);
  }
  return found;
}

function named(what, given) {
  if (given != null && (typeof given !== "object" || Array.isArray(given))) {
    refuse(`${what} maps names to what is known, ${what === "known" ? "{ guess: 0.5 }" : "{ slope: Uniform(0.2, 0.8) }"}, got ${shown(given)}`);
  }
  return Object.entries(given ?? {});
}

/** The place of a parameter that is a single number among the network's coordinates. */
function placeOf(model, name) {
  const place = model.coordinates.findIndex((one) => one.name === name && one.owner === name);
  if (place >= 0) return place;
  const scalars = model.coordinates.filter((one) => one.name === one.owner).map((one) => one.name);
  return refuse(`what is known can be said of single numbers (${scalars.join(", ") || "none here"}), got ${shown(name)}: use one of these`);
}

function readKnown(model, name, value) {
  const { scale } = model.coordinates[placeOf(model, name)];
  if (typeof value !== "number" || !Number.isFinite(value)) refuse(`a known value is a number, got ${shown(value)} for ${name}`);
  checkInside(name, scale, value);
  return { known: value };
}

function checkInside(name, { support: [low, high] }, value) {
  const slack = Number.isFinite(high - low) ? 1e-6 * (high - low) : 0; // bounds were declared in single precision
  if (value >= low - slack && value <= high + slack) return;
  refuse(`${name} must lie in [${short(low)}, ${short(high)}], got ${short(value)}: pass parameter values in the task's units`);
}

function readPrior(model, name, prior) {
  const { scale: { support: [low, high] } } = model.coordinates[placeOf(model, name)];
  if (!prior?.family) refuse(`a prior is a distribution, such as aline.Normal(-1, 0.4), got ${shown(prior)} for ${name}`);
  const fields = FAMILIES[prior.family] ?? refuse(`the prior of ${name} must be one of ${Object.keys(FAMILIES).join(", ")}, got ${prior.family}`);
  if (!fields.every((field) => Number.isFinite(prior[field]))) refuse(`the prior of ${name} needs the numbers ${fields.join(", ")} of a ${prior.family}, got ${shown(prior)}`);
  const values = quantilesOf(prior, LEVELS);
  if (!(values[0] < values.at(-1) && Number.isFinite(values.at(-1) - values[0]))) refuse(`the prior of ${name} is no distribution, got ${shown(prior)}: check the signs and the order of its numbers`);
  const outside = values.filter((value) => value < low || value > high).length / GRID;
  if (outside > OUTSIDE) refuse(`the prior of ${name} has ${(100 * outside).toFixed(1)}% of its mass outside [${short(low)}, ${short(high)}], where the model knows nothing: use one inside, such as Uniform(${short(low)}, ${short(high)})`);
  return { family: prior.family, ...Object.fromEntries(fields.map((field) => [field, prior[field]])) };
}

/** The moments of an earlier posterior, of parameters that both have. */
function ofPosterior(model, earlier) {
  const found = {};
  for (const { name, owner, scale } of model.coordinates) {
    if (name !== owner || !(name in earlier)) continue;
    for (const p of [DRAWN, 1 - DRAWN]) checkInside(name, scale, earlier[name].quantile(p));
    const [mean, std] = earlier[name].moments((value) => scale.toNetwork(value));
    found[name] = { mean, std: within(std) };
  }
  if (Object.keys(found).length) return found;
  return refuse(`the earlier posterior is about ${Object.keys(earlier).join(", ")}, and this model about ${model.coordinates.map((one) => one.name).join(", ")}: they have no parameter in common`);
}

const within = (std) => Math.min(Math.max(std, NARROWEST), WIDEST);

/** The part of it about values that are known, and the part about priors. */
export const knownPart = (knowledge) => Object.fromEntries(Object.entries(knowledge).filter(([, one]) => "known" in one));
export const priorPart = (knowledge) => Object.fromEntries(Object.entries(knowledge).filter(([, one]) => !("known" in one)));

/** The values that are known, by name. */
export const knownValues = (knowledge) => Object.fromEntries(Object.entries(knownPart(knowledge)).map(([name, one]) => [name, one.known]));

/** A goal must not contain what is known. */
export function checkUnknown(knowledge, target) {
  for (const name of Object.keys(knownValues(knowledge))) {
    if (target.includes(name)) refuse(`${name} is known, so there is nothing to learn of it: leave it out`);
  }
}

/** What to learn where nobody says: what is not known; null where nothing is. */
export function unknownNames(model, knowledge) {
  const known = Object.keys(knownValues(knowledge));
  if (!known.length) return null;
  const left = Object.keys(model.task.parameters).filter((name) => !known.includes(name));
  return left.length ? left : refuse("every parameter is known: leave out one to learn something of");
}

/** [mean, standard deviation] of every coordinate's prior, on the network's scale. */
export function networkPrior(model, knowledge) {
  return model.coordinates.map(({ name, scale }) => (name in knowledge ? momentsOf(scale, knowledge[name]) : [0, 1]));
}

function momentsOf(scale, one) {
  if ("known" in one) return [Math.min(Math.max(scale.toNetwork(inside(scale, one.known)), -3), 3), KNOWN]; // a rate of 0 lies infinitely far
  if (!("family" in one)) return [one.mean, one.std];
  const z = onNetworkScale(scale, one);
  const mean = z.reduce((a, b) => a + b, 0) / GRID;
  return [mean, within(Math.sqrt(z.reduce((sum, value) => sum + (value - mean) ** 2, 0) / (GRID - 1)))];
}

const inside = ({ support: [low, high] }, value) => Math.min(Math.max(value, low), high);

/** Quantiles of a prior. */
const onNetworkScale = (scale, one) => quantilesOf(one, LEVELS).map((value) => scale.toNetwork(inside(scale, value)));

/** What of it the network was not trained for, in words. */
export function knowledgeWarnings(model, knowledge) {
  return Object.entries(priorPart(knowledge)).flatMap(([name, one]) => {
    const { scale } = model.coordinates[placeOf(model, name)];
    const [mean, std] = momentsOf(scale, one);
    return [
      ...(Math.abs(mean) > FARTHEST ? [`The prior of ${name} lies at the edge of what the model was trained for: its posterior there is a guess.`] : []),
      ...("family" in one && isBent(onNetworkScale(scale, one), mean, std)
        ? [`The prior of ${name} is taken as the normal on the network's scale that has its mean and spread: its shape beyond these is not known to the model.`] : []),
    ];
  });
}

function isBent(z, mean, std) {
  const edge = Math.floor(GRID / 40);
  return z.some((value, i) => i >= edge && i < GRID - edge - 1 && Math.abs((value - mean) / std - ndtri(LEVELS[i])) > BENT);
}
