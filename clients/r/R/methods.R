coef.dppca_answer <- function(object, ...) setNames(object$table$estimate, object$table$term)

formula.dppca_answer <- function(x, ...) x$formula

# A noised number of rows is no number of observations: NA, and `glance` has the estimate.
nobs.dppca_answer <- function(object, ...) {
  if (object$said$rows_deviation > 0) NA_integer_ else object$said$rows
}

at_level <- function(object, level) {
  if (isTRUE(all.equal(level, 1 - object$said$alpha))) return(object)
  said <- call_dppca(c(object$asked, given("--level", level)), object$command)
  answer <- make_answer(said, object$asked, object$command)
  answer$formula <- object$formula
  answer
}

confint.dppca_answer <- function(object, parm, level = 1 - object$said$alpha, ...) {
  table <- at_level(object, level)$table
  ends <- as.matrix(table[c("conf.low", "conf.high")])
  half <- 100 * (1 - level) / 2
  dimnames(ends) <- list(table$term, paste(format(c(half, 100 - half), trim = TRUE), "%"))
  if (missing(parm)) ends else ends[parm, , drop = FALSE]
}

vcov.dppca_answer <- function(object, ...) {
  rows <- object$said$covariance
  if (is.null(rows)) {
    stop_dppca("dppca_not_in_answer", paste(
      "these estimates have no covariance: ask `ols`, or others of what a table has"
    ))
  }
  values <- vapply(unlist(rows, recursive = FALSE), function(each) {
    if (is.null(each)) NA_real_ else as.numeric(each)
  }, 0)
  matrix(values, length(rows), byrow = TRUE,
         dimnames = list(object$table$term, object$table$term))
}

as.data.frame.dppca_answer <- function(x, row.names = NULL, optional = FALSE, ...) x$table

tidy.dppca_answer <- function(x, conf.int = FALSE, conf.level = 1 - x$said$alpha, ...) {
  ends <- if (conf.int) c("conf.low", "conf.high")
  at_level(x, conf.level)$table[c("term", "estimate", "std.error", "p.value", ends, "noise")]
}

glance.dppca_answer <- function(x, ...) {
  it <- x$said
  data.frame(
    rows = it$rows, rows.deviation = it$rows_deviation, counts = it$counts, unit = it$unit,
    owners = it$owners,
    epsilon = as.numeric(it$epsilon), delta = as.numeric(it$delta), relation = it$relation,
    study = it$study, vouched = x$vouched, stringsAsFactors = FALSE
  )
}

# What is asked of people is another question than of rows: the title says it, a formula does not.
title_of <- function(x) {
  if (is.null(x$formula)) return(x$said$title)
  paste0(deparse1(x$formula), if (x$said$unit == "person") ", by person")
}

counted <- function(said) {
  number <- paste(format(said$rows), said$counts)
  if (said$rows_deviation == 0) return(number)
  sprintf("about %s (by noise off by %.3g)", number, said$rows_deviation)
}

print.dppca_answer <- function(x, digits = max(3L, getOption("digits") - 3L), ...) {
  cat("\n", title_of(x), "\n\n", sep = "")
  print(format(coef(x), digits = digits), quote = FALSE)
  invisible(x)
}

summary.dppca_answer <- function(object, ...) {
  structure(class = "summary_dppca_answer", list(answer = object))
}

print.summary_dppca_answer <- function(x, digits = max(3L, getOption("digits") - 3L), ...) {
  it <- x$answer
  table <- it$table
  cat("\n", title_of(it), "\n", sep = "")
  cat(sprintf(
    "%s, %s of %s; epsilon %s, delta %s (%s)\n\n", it$said$scope, counted(it$said),
    owners_of(it$said$owners), it$said$epsilon, it$said$delta, it$said$relation
  ))
  half <- 50 * it$said$alpha
  shown <- cbind(
    Estimate = table$estimate, `Std. Error` = table$std.error, low = table$conf.low,
    high = table$conf.high, `Pr(>|z|)` = table$p.value
  )
  colnames(shown)[3:4] <- paste(format(c(half, 100 - half), trim = TRUE), "%")
  rownames(shown) <- table$term
  tests <- any(!is.na(table$p.value))
  printCoefmat(
    if (tests) shown else shown[, 1:4, drop = FALSE], digits = digits, has.Pvalue = tests,
    P.values = tests, cs.ind = 1:4, tst.ind = integer(), na.print = ""
  )
  cat("\nShare of the variance that is noise:\n")
  known <- !is.na(table$noise)
  print(setNames(sprintf("%.1f %%", 100 * table$noise[known]), table$term[known]), quote = FALSE)
  for (row in which(!is.na(table$refused))) {
    cat(table$term[row], ": not estimable, ", table$refused[row], "\n", sep = "")
  }
  told <- strwrap(unlist(it$said$assumptions), width = 80, exdent = 2)
  cat("\n", paste(told, collapse = "\n"), "\n", sep = "")
  if (!it$vouched) cat("\nNOBODY VOUCHES FOR THIS RESULT.\n")
  invisible(x)
}

# A forest plot: a line for each estimate, its interval, and the value of no effect.
plot.dppca_answer <- function(x, none = NULL, log = NULL, xlab = title_of(x), ...) {
  table <- x$table[x$table$term != "(Intercept)" & !is.na(x$table$estimate), ]
  if (nrow(table) == 0L) stop_dppca("dppca_not_in_answer", "no estimate can be drawn")
  ratios <- isTRUE(x$said$ratios)
  if (is.null(log)) log <- ratios && all(table$conf.low > 0)
  if (is.null(none)) none <- if (ratios) 1 else 0
  ends <- c(table$conf.low, table$conf.high, table$estimate)
  range <- range(ends[is.finite(ends)], none)
  clip <- function(values) pmin(pmax(values, range[1L]), range[2L])
  at <- rev(seq_len(nrow(table)))
  old <- par(mar = c(4.1, 1 + 0.5 * max(nchar(table$term)), 1.1, 1.1))
  on.exit(par(old))
  plot(NULL, xlim = range, ylim = c(0.5, nrow(table) + 0.5), yaxt = "n", ylab = "", xlab = xlab,
       log = if (log) "x" else "", ...)
  axis(2, at, table$term, las = 1, tick = FALSE)
  abline(v = none, lty = 2)
  segments(clip(table$conf.low), at, clip(table$conf.high), at)
  points(table$estimate, at, pch = 19)
  invisible(x)
}
