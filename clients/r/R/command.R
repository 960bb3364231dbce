# One call of the command: arguments as a vector, JSON back, errors as conditions. No number is read
# from text that is meant for people.

UNVOUCHED <- 52L # exit code: the file is consistent, and nobody vouches for it

stop_dppca <- function(class, message, ...) {
  stop(structure(
    class = c(class, "dppca_error", "error", "condition"),
    list(message = message, call = NULL, ...)
  ))
}

dppca_command <- function(command = NULL) {
  ways <- c(
    command, getOption("dppca.command"), Sys.getenv("DPPCA_COMMAND"),
    Sys.which(c("dppca-verify", "dppca-owner"))
  )
  ways <- unname(ways[nzchar(ways)])
  if (length(ways) == 0L) {
    stop_dppca("dppca_no_command", paste(
      "dppca-verify is not installed here: install its wheel, and give its path in",
      "the variable DPPCA_COMMAND if it is in no folder of PATH"
    ))
  }
  ways[[1L]]
}

# R's LD_LIBRARY_PATH leads to its own libraries, which are not Python's.
run_command <- function(command, arguments) {
  old <- Sys.getenv("LD_LIBRARY_PATH", NA)
  Sys.unsetenv("LD_LIBRARY_PATH")
  on.exit(if (!is.na(old)) Sys.setenv(LD_LIBRARY_PATH = old))
  out <- tempfile()
  err <- tempfile()
  on.exit(unlink(c(out, err)), add = TRUE)
  code <- suppressWarnings(system2(
    command, shQuote(c(arguments, "--json")),
    stdout = out, stderr = err, stdin = nullfile()
  ))
  lines <- function(path) {
    if (!file.exists(path)) return("")
    paste(readLines(path, encoding = "UTF-8", warn = FALSE), collapse = "\n")
  }
  list(code = as.integer(code), out = lines(out), err = lines(err))
}

call_dppca <- function(arguments, command = dppca_command()) {
  done <- run_command(command, arguments)
  said <- NULL
  if (nzchar(done$out) && jsonlite::validate(done$out)) {
    said <- jsonlite::fromJSON(done$out, simplifyVector = FALSE)
  }
  exit <- paste0("dppca_exit_", done$code)
  if (!is.null(said$error)) {
    stop_dppca(c(paste0("dppca_", said$error$class), exit), said$error$message, code = done$code)
  }
  if (!done$code %in% c(0L, UNVOUCHED) || is.null(said)) {
    why <- if (nzchar(done$err)) done$err else sprintf("%s ended with %d", command, done$code)
    missing <- done$code == 127L  # the shell's: there is no such program
    if (missing) {
      why <- paste(command, "cannot be run: give the path of dppca-verify in DPPCA_COMMAND")
    }
    stop_dppca(c(if (missing) "dppca_no_command", exit), why, code = done$code)
  }
  structure(said, vouched = done$code == 0L)
}

given <- function(option, value) {
  if (is.null(value)) character() else c(option, as.character(value))
}
