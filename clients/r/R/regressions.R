# y ~ a + b: names of attributes, or of labels in backticks. What a release cannot know is refused.
model_names <- function(formula, est, interactions) {
  refuse <- function(why) stop_dppca("dppca_formula", why)
  if (!inherits(formula, "formula") || length(formula) != 3L) refuse("give y ~ a + b")
  name <- function(part) {
    if (is.name(part)) return(as.character(part))
    refuse(sprintf(
      "%s: only names can be asked, with labels in backticks, such as `sex=m`", deparse1(part)
    ))
  }
  outcome <- name(formula[[2L]])
  if (identical(formula[[3L]], as.name("."))) {
    of <- sub("=.*", "", outcome)
    # Table 1 of one attribute: of the questions, it is never refused
    known <- call_dppca(c("estimate", est$file, "summary", of, est$shared), est$command)
    return(c(outcome, setdiff(vapply(known$attributes, `[[`, "", "name"), of)))
  }
  found <- character()
  walk <- function(part) {
    if (is.call(part) && identical(part[[1L]], as.name("("))) return(walk(part[[2L]]))
    if (is.call(part) && identical(part[[1L]], as.name("+")) && length(part) == 3L) {
      walk(part[[2L]])
      return(walk(part[[3L]]))
    }
    if (is.call(part) && identical(part[[1L]], as.name(":")) && interactions) {
      found <<- c(found, paste0(name(part[[2L]]), ":", name(part[[3L]])))
      return(invisible())
    }
    if (is.numeric(part)) refuse("every model has an intercept: leave out the number")
    found <<- c(found, name(part))
  }
  walk(formula[[3L]])
  c(outcome, found)
}

fit <- function(est, question, formula, ..., interactions = FALSE) {
  names <- model_names(formula, est, interactions)
  if (interactions) names <- paste(names[[1L]], "~", paste(names[-1L], collapse = " + "))
  answer <- dppca_ask(est, question, names, ...)
  answer$formula <- formula
  answer
}

ols <- function(est, formula, variance = NULL, ...) {
  fit(est, "ols", formula, variance = variance, ...)
}

logit <- function(est, formula, log = FALSE, ...) {
  fit(est, "logit", formula, log = log, ..., interactions = TRUE)
}

marginal_effects <- function(est, formula, ...) {
  fit(est, "marginal-effects", formula, ..., interactions = TRUE)
}

poisson_rate <- function(est, formula, log = FALSE, ...) {
  fit(est, "poisson", formula, log = log, ..., interactions = TRUE)
}
