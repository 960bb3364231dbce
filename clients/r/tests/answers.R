# Answers that were kept from the command: no Python is needed here.
library(dppca)

expect <- function(ok) stopifnot(isTRUE(ok))
caught <- function(code) tryCatch(code, error = identity, warning = identity)
folder <- tempfile()
dir.create(folder)
file <- file.path(folder, "components.npz")
writeLines("not read here", file)

if (.Platform$OS.type == "unix") {
  says <- function(json, code = 0L) {
    command <- tempfile(tmpdir = folder)
    answer <- tempfile(tmpdir = folder)
    writeLines(json, answer)
    writeLines(c("#!/bin/sh", "[ \"$1\" = verify ] && cat \"$0.verify\" && exit 0",
                 "[ \"$3\" = share ] && exit 10", # as of a number that was not counted
                 "echo \"$@\" > \"$0.asked\"", sprintf("cat '%s'; exit %d", answer, code)), command)
    writeLines(paste0(
      '{"study": "s", "owners": [1, 2], "guarantee": {"epsilon": "1", "delta": "0", ',
      '"relation": "replace-one"}}'
    ), paste0(command, ".verify"))
    Sys.chmod(command, "755")
    command
  }
  estimate <- function(name, value, more = "") {
    sprintf(paste0(
      '{"name": "%s", "estimate": %s, "bse": 0.5, "low": %s, "high": 2, "pvalue": 0.04, ',
      '"unbounded": %s, "noise": 0.25, "refusal": %s, "attribute": null, "label": null}'
    ), name, value, value, if (nzchar(more)) more else "null",
    if (value == "null") '{"reason": "the noise hides it"}' else "null")
  }
  answer <- function(..., covariance = "null") {
    sprintf(paste0(
      '{"title": "regression of y", "scope": "for these rows", "rows": 90, "owners": 2, ',
      '"rows_deviation": 0, "unit": "row", "counts": "rows", "version": 1, "epsilon": "1", "delta": "0", "study": "s", ',
      '"relation": "replace-one", "attributes": [{"name": "y"}, {"name": "a"}, {"name": "b"}], ',
      '"alpha": 0.05, "assumptions": ["One thing."], ',
      '"covariance": %s, "estimates": [%s]}'
    ), covariance, paste(..., sep = ", "))
  }

  command <- says(answer(estimate("const", "1"), estimate("a", "0.5", '"below"'),
                         estimate("b=c", "null"),
                         covariance = "[[0.25, 0.1, null], [0.1, 0.25, null], [null, null, null]]"))
  est <- dppca_estimates(file, command = command)
  fitted <- ols(est, y ~ a + `b=c`)
  asked <- readLines(paste0(command, ".asked"))
  expect(grepl(" ols y a b=c --json$", asked))
  expect(identical(names(coef(fitted)), c("(Intercept)", "a", "b=c")))
  expect(identical(unname(coef(fitted)), c(1, 0.5, NA)))
  expect(identical(unname(confint(fitted)["a", ]), c(-Inf, 2)))
  expect(all.equal(vcov(fitted)["a", "(Intercept)"], 0.1))
  expect(is.na(vcov(fitted)["b=c", "a"]))
  expect(nobs(fitted) == 90)
  expect(inherits(formula(fitted), "formula"))
  told <- capture.output(print(summary(fitted)))
  expect(any(grepl("b=c: not estimable, the noise hides it", told)))
  expect(any(grepl("One thing.", told)))
  expect(!any(grepl("NOBODY VOUCHES", told)))
  expect(any(grepl("for these rows, 90 rows of 2 owners; epsilon 1", told)))
  ols(est, y ~ .)
  expect(grepl(" ols y a b --json$", readLines(paste0(command, ".asked"))))
  confint(fitted, level = 0.9)
  expect(grepl("--level 0.9 --json$", readLines(paste0(command, ".asked"))))
  if (requireNamespace("generics", quietly = TRUE)) {
    expect(identical(generics::tidy(fitted)$term, c("(Intercept)", "a", "b=c")))
    expect(generics::glance(fitted)$vouched)
  }
  grDevices::pdf(NULL)
  plot(fitted)
  invisible(grDevices::dev.off())

  people <- sub('"unit": "row", "counts": "rows"', '"unit": "person", "counts": "weighted rows"',
                sub('"rows_deviation": 0', '"rows_deviation": 1.25', answer(estimate("a", "1"))))
  est$command <- says(people)
  capped <- ols(est, y ~ a)
  told <- capture.output(print(summary(capped)))
  expect(any(grepl("y ~ a, by person", told, fixed = TRUE)))
  expect(any(grepl("about 90 weighted rows (by noise off by 1.25) of 2 owners", told, fixed = TRUE)))
  expect(is.na(nobs(capped)))
  if (requireNamespace("generics", quietly = TRUE)) {
    expect(identical(generics::glance(capped)$counts, "weighted rows"))
  }
  est$command <- says(sub('"version": 1', '"version": 2', people))
  expect(inherits(caught(dppca_mean(est, "a")), "dppca_other_version"))
  est$command <- command

  for (bad in list(y ~ log(a), y ~ a + 0, y ~ a - 1, y ~ a:b, ~a, log(y) ~ a, y ~ offset(a))) {
    expect(inherits(caught(ols(est, bad)), "dppca_formula"))
  }
  logit(est, y ~ a + a:b, log = TRUE)
  expect(grepl(" logit y ~ a [+] a:b --log --json$", readLines(paste0(command, ".asked"))))
  marginal_effects(est, y ~ a + a:b)
  expect(grepl(" marginal-effects y ~ a [+] a:b --json$", readLines(paste0(command, ".asked"))))
  dppca_difference(est, "y", by = "g", labels = c("u", "v"))
  expect(grepl("--by g --labels u v ", readLines(paste0(command, ".asked"))))

  refused <- says('{"error": {"class": "SettingError", "message": "no such name"}}', 10L)
  est$command <- refused
  found <- caught(dppca_mean(est, "z"))
  expect(inherits(found, "dppca_SettingError") && inherits(found, "dppca_exit_10"))
  expect(conditionMessage(found) == "no such name")

  est$command <- says(answer(estimate("a", "1")), 52L)
  expect(!dppca_mean(est, "a")$vouched)
  expect(inherits(caught(vcov(dppca_mean(est, "a"))), "dppca_not_in_answer"))
  est$command <- file.path(folder, "no such command")
  found <- caught(dppca_mean(est, "a"))
  expect(inherits(found, "dppca_no_command"))
  expect(grepl("no such command cannot be run: give the path", conditionMessage(found)))
}
expect(inherits(caught(dppca_estimates(file.path(folder, "none"), command = "x")), "dppca_no_file"))
unlink(folder, recursive = TRUE)
