# Run adaptive experiments on an aline service from R.
#
# Copy this file beside your experiment; it needs the packages curl and jsonlite.
#
#   source("aline.R")
#   client <- aline_client("http://127.0.0.1:8000")   # token = "aline_..." where it asks for one
#   experiment <- client$create("psychometric", target = "threshold")
#   while (!experiment$finished()) {
#     trial <- experiment$ask()                        # trial$design$stimulus
#     experiment$tell(trial, respond(trial$design$stimulus))
#   }
#   experiment$posterior()$threshold$interval
#
# When the service does not answer, or its answer is cut short, a call is repeated with the same key
# until it does: it counts once, so nothing is lost and nothing is doubled. A refusal is a condition
# of class "aline_error", with the HTTP `status` and a message that says what to do.

# A service. `patience` is how many seconds to repeat a call that gets no reply.
aline_client <- function(url = "http://127.0.0.1:8000", token = NULL, timeout = 10, patience = 30) {
  service <- list(url = paste0(sub("/+$", "", url), "/api/v1"), token = token,
                  timeout = timeout, patience = patience)
  list(
    # The models on offer.
    models = function() aline_call(service, "GET", "/models")$models,
    # The experiments, the newest first.
    experiments = function(start = 0, limit = 50) {
      path <- sprintf("/experiments?start=%d&limit=%d", as.integer(start), as.integer(limit))
      aline_call(service, "GET", path)$experiments
    },
    # Start an experiment. Where the model was trained for it, `known` is list(guess = 0.5), `prior`
    # list(slope = list(family = "Uniform", low = 0.2, high = 0.8)), `units` list(stimulus = c(-40, 0)).
    create = function(model, target = NULL, horizon = NULL, stop = NULL, name = NULL, seed = 0,
                      metadata = NULL, known = NULL, prior = NULL, units = NULL) {
      body <- list(model = model, target = aline_target(target), horizon = horizon,
                   stop = stop, name = name, seed = as.integer(seed), metadata = metadata,
                   known = aline_named(known), prior = aline_named(prior), units = aline_columns(units))
      aline_experiment(service, aline_call(service, "POST", "/experiments", body)$name)
    },
    # An experiment that is there already.
    open = function(name) {
      experiment <- aline_experiment(service, name)
      experiment$status() # says so if it is not
      experiment
    }
  )
}

# One experiment of a service.
aline_experiment <- function(service, name) {
  path <- paste0("/experiments/", curl::curl_escape(enc2utf8(name)))
  get <- function(more = "", raw = FALSE) aline_call(service, "GET", paste0(path, more), raw = raw)
  post <- function(more, body = list()) aline_call(service, "POST", paste0(path, more), body)
  number <- function(trial) if (is.list(trial)) trial$number else as.integer(trial)
  on_trial <- function(trial, what, body = list()) post(sprintf("/trials/%d/%s", number(trial), what), body)
  list(
    name = name,
    # Everything about it: told, horizon, finished, target, trials, ...
    status = function() get(),
    finished = function() get()$finished,
    # Aim at something else, plan more or fewer trials, or know something else; list() takes what is
    # known, or the priors, back.
    change = function(target = NULL, horizon = NULL, stop = NULL, known = NULL, prior = NULL) {
      body <- list(target = aline_target(target), horizon = horizon, stop = stop,
                   known = aline_named(known), prior = aline_named(prior))
      invisible(aline_call(service, "PATCH", path, body))
    },
    # The next trial.
    ask = function() post("/ask"),
    # Record what a trial gave; `design` says where, if not at the design proposed; `note` is a
    # named list of your own that is kept with the trial, such as list(rt = 0.41).
    tell = function(trial, outcome, design = NULL, note = NULL) {
      on_trial(trial, "tell", list(outcome = outcome, design = design, note = note))
    },
    # Give a trial up; if it was told, its outcome leaves the posterior.
    abandon = function(trial) on_trial(trial, "abandon"),
    # Ask a trial's design again.
    redo = function(trial) on_trial(trial, "redo"),
    # Take the last told trial back and ask it again.
    undo = function() post("/undo"),
    # Add data measured earlier: a vector an axis, and the outcomes in the same order.
    attach = function(designs, outcomes) {
      body <- list(designs = aline_columns(designs), outcomes = unname(as.list(outcomes)))
      post("/attach", body)$trials
    },
    # Ask only for `candidates`, a vector an axis, or in a `box` from now on; restrict() is anywhere again.
    restrict = function(candidates = NULL, box = NULL, repeats = NULL) {
      body <- list(candidates = aline_columns(candidates), box = aline_columns(box), repeats = repeats)
      invisible(post("/restrict", body))
    },
    # What is known: a list by name of mean, std and interval.
    posterior = function(level = 0.95, refined = FALSE) {
      get(sprintf("/posterior?level=%s&refined=%s", format(level), tolower(refined)))$parameters
    },
    # Why not to believe it, a sentence each.
    warnings = function() unlist(get("/posterior")$warnings),
    # What would be measured at designs, a vector an axis.
    predict = function(designs, level = 0.95) {
      post("/predict", list(designs = aline_columns(designs), level = level))
    },
    # The experiment as the text of a file, json or csv.
    export = function(format = "json") rawToChar(get(paste0("/export?format=", format), raw = TRUE)),
    # End it for good.
    close = function() invisible(post("/close"))
  )
}

# A list even where there is one: R has no single values, JSON has.
aline_columns <- function(designs) if (!is.null(designs)) lapply(designs, function(column) I(unlist(column)))
# An empty list of R is an empty list of JSON, unless it has names.
aline_named <- function(values) if (is.null(values)) NULL else structure(values, names = as.character(names(values)))
aline_target <- function(target) if (is.null(target)) NULL else unname(as.list(target))

aline_call <- function(service, method, path, body = NULL, raw = FALSE) {
  handle <- curl::new_handle(customrequest = method, timeout_ms = round(1000 * service$timeout))
  headers <- list(Accept = "application/json")
  if (!is.null(service$token)) headers$Authorization <- paste("Bearer", service$token)
  if (method != "GET") {
    headers <- c(headers, "Content-Type" = "application/json", "Idempotency-Key" = aline_key())
    bytes <- charToRaw(enc2utf8(aline_json(body)))
    curl::handle_setopt(handle, postfields = bytes, postfieldsize = length(bytes))
  }
  curl::handle_setheaders(handle, .list = headers)
  aline_repeat(service, paste0(service$url, path), handle, raw)
}

aline_json <- function(body) {
  given <- Filter(Negate(is.null), body)
  if (length(given) == 0) return("{}")
  as.character(jsonlite::toJSON(given, auto_unbox = TRUE, null = "null", digits = I(17)))
}

# Not by R's own random numbers: an experiment must not change what a user's seed gives.
aline_key <- function() paste(basename(tempfile("")), Sys.getpid(), sub("[.]", "", format(as.numeric(Sys.time()), digits = 20)), sep = "-")

# Send until there is a whole reply, within our patience.
aline_repeat <- function(service, url, handle, raw) {
  give_up <- Sys.time() + service$patience
  wait <- 0.1
  repeat {
    reply <- tryCatch(aline_reply(curl::curl_fetch_memory(url, handle), raw), error = identity)
    if (!inherits(reply, "error")) return(reply)
    if (!inherits(reply, "aline_error")) {
      reply <- aline_error(0, sprintf("the service does not answer (%s)", conditionMessage(reply)))
    }
    # No whole reply; too many at once; a proxy whose service is away, restarts, or is slow.
    if (!(reply$status %in% c(0, 429, 502, 503, 504)) || Sys.time() + wait > give_up) stop(reply)
    Sys.sleep(wait)
    wait <- min(2 * wait, 2)
  }
}

aline_reply <- function(reply, raw) {
  if (reply$status_code < 400 && raw) return(reply$content)
  text <- rawToChar(reply$content)
  Encoding(text) <- "UTF-8"
  if (reply$status_code < 400) return(aline_read(text))
  detail <- tryCatch(aline_read(text)$detail, error = function(error) NULL)
  stop(aline_error(reply$status_code, if (is.null(detail)) "the service failed" else detail))
}

aline_read <- function(text) {
  jsonlite::fromJSON(text, simplifyDataFrame = FALSE, simplifyMatrix = FALSE)
}

aline_error <- function(status, detail) {
  structure(class = c("aline_error", "error", "condition"),
            list(message = detail, call = NULL, status = status))
}
