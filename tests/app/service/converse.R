# Has the conversation with a service and prints what it hears.

arguments <- commandArgs(trailingOnly = TRUE)
source(file.path(arguments[1], "aline.R"))
client <- aline_client(arguments[2], token = if (nchar(arguments[3])) arguments[3], timeout = 60)
steps <- jsonlite::fromJSON(arguments[4], simplifyVector = FALSE)
kept <- list(client = client)
value <- function(given) if (is.character(given) && startsWith(given, "$")) kept[[substring(given, 2)]] else given
heard <- lapply(steps, function(step) {
  given <- lapply(step$with, value)
  if (step$do %in% c("create", "change", "restrict")) given <- c(Filter(Negate(is.list), given), unlist(Filter(is.list, given), recursive = FALSE))
  found <- tryCatch(do.call(kept[[step$on]][[step$do]], given), aline_error = function(error) list(status = error$status, detail = error$message))
  if (!is.null(step$as)) kept[[step$as]] <<- found
  if (step$do %in% c("change", "close") && !is.numeric(found$status)) return(NULL)
  if (is.list(found) && is.function(found$ask)) found$name else found
})
cat(jsonlite::toJSON(heard, auto_unbox = TRUE, null = "null", digits = I(17)))
