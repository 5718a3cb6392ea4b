"""What the words on the page mean, for someone who never ran an adaptive experiment."""

TERMS = {
    "model": "A small network that was trained on simulations of one kind of experiment. It picks "
    "each trial and says what is known after it.",
    "learn about": "What the trials are aimed at. It may change at any time; what was measured "
    "stays and counts for everything.",
    "predictions": "Aims at the outcome itself, at any design, and not at the parameters.",
    "trials": "How many measurements are planned. More can be added later.",
    "stop earlier": "Ends the experiment before its last trial, once the 95 % intervals of these "
    "parameters are all narrower than you say.",
    "simulated participant": "The computer answers, with parameters drawn at random that the model "
    "never sees. To try things out.",
    "posterior": "What is known about each parameter after all answers so far: the best guess, and "
    "the interval that holds the true value with 95 % probability.",
    "expected outcome": "What a measurement would give, by all that is known now. A band shows how "
    "sure that is.",
    "what is known": "How likely each value of a parameter is, before the first trial and now. "
    "Plots move closer as the posterior gets narrow.",
    "what goes together": "Values of two parameters that explain the answers equally well. A "
    "correlation near 1 or −1 means that the answers cannot tell them apart yet.",
    "design by trial": "What was set in each trial, in the order of the trials.",
    "uncertainty left": "The spread of the posterior over that of the prior: 100 % is nothing "
    "learned, 10 % is ten times narrower.",
    "take away": "Files of this experiment. The report is a page with figures and tables, the CSV "
    "has a line a trial, the JSON everything with its history, the netCDF draws from the posterior "
    "for ArviZ.",
}
