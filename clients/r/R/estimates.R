dppca_estimates <- function(file, ca = NULL, crl = NULL, first = NULL, population = NULL,
                            these_rows = FALSE, command = dppca_command()) {
  if (!file.exists(file)) stop_dppca("dppca_no_file", sprintf("there is no file %s", file))
  checked <- call_dppca(c("verify", file, given("--ca", ca), given("--crl", crl)), command)
  if (!attr(checked, "vouched")) {
    warning(structure(
      class = c("dppca_unvouched", "warning", "condition"),
      list(
        message = "consistent, but nobody vouches for it: give ca, the authority's certificate",
        call = NULL
      )
    ))
  }
  shared <- c(
    given("--ca", ca), given("--crl", crl), given("--first", first),
    given("--population", population), if (these_rows) "--these-rows"
  )
  structure(
    class = "dppca_estimates",
    list(file = file, shared = shared, command = command, checked = checked)
  )
}

owners_of <- function(number) sprintf("%d %s", number, ngettext(number, "owner", "owners"))

print.dppca_estimates <- function(x, ...) {
  it <- x$checked
  cat(sprintf(
    "Result of study %s: %s, epsilon %s, delta %s, %s\n", it$study, owners_of(length(it$owners)),
    it$guarantee$epsilon, it$guarantee$delta, it$guarantee$relation
  ))
  cat(if (attr(it, "vouched")) {
    "Verified, and vouched for by its authority.\n"
  } else {
    "Consistent, but nobody vouches for it.\n"
  })
  invisible(x)
}

dppca_ask <- function(est, question, names = character(), ..., level = NULL, adjust = NULL) {
  stopifnot(inherits(est, "dppca_estimates"))
  more <- list(...)
  options <- unlist(lapply(base::names(more), function(name) {
    value <- more[[name]]
    option <- paste0("--", gsub("_", "-", name))
    if (isTRUE(value)) option else if (!isFALSE(value)) given(option, value)
  }))
  asked <- c(
    "estimate", est$file, question, names, options, given("--adjust", adjust), est$shared
  )
  make_answer(call_dppca(c(asked, given("--level", level)), est$command), asked, est$command)
}

ANSWERS <- 1L # the version of answers that is read here

make_answer <- function(said, asked, command) {
  if (!identical(said$version, ANSWERS)) {
    stop_dppca("dppca_other_version", sprintf(
      "%s gives answers of another version: install the same version as this package's", command
    ))
  }
  number <- function(key) {
    vapply(said$estimates, function(each) {
      if (is.null(each[[key]])) NA_real_ else as.numeric(each[[key]])
    }, 0)
  }
  text <- function(key) {
    vapply(said$estimates, function(each) {
      if (is.null(each[[key]])) NA_character_ else each[[key]]
    }, "")
  }
  term <- text("name")
  term[term == "const"] <- "(Intercept)"
  low <- number("low")
  high <- number("high")
  open <- text("unbounded") # an end that the interval does not have
  low[open %in% c("below", "both")] <- -Inf
  high[open %in% c("above", "both")] <- Inf
  table <- data.frame(
    term = term, estimate = number("estimate"), std.error = number("bse"), conf.low = low,
    conf.high = high, p.value = number("pvalue"), noise = number("noise"),
    attribute = text("attribute"), label = text("label"), against = text("against"),
    stringsAsFactors = FALSE
  )
  for (key in c("variable", "statistic", "group")) { # of Table 1, a cell each
    if (length(said$cells)) table[[key]] <- vapply(said$cells, `[[`, "", key)
  }
  refusals <- lapply(said$estimates, `[[`, "refusal")
  table$refused <- vapply(refusals, function(why) {
    if (is.null(why)) NA_character_ else why$reason
  }, "")
  structure(class = "dppca_answer", list(
    table = table, said = said, asked = asked, command = command, vouched = attr(said, "vouched")
  ))
}

dppca_mean <- function(est, y, by = NULL, ...) dppca_ask(est, "mean", y, by = by, ...)
dppca_share <- function(est, y, by = NULL, ...) dppca_ask(est, "share", y, by = by, ...)
dppca_median <- function(est, y, by = NULL, ...) dppca_ask(est, "median", y, by = by, ...)
dppca_iqr <- function(est, y, by = NULL, ...) dppca_ask(est, "iqr", y, by = by, ...)
dppca_sd <- function(est, y, by = NULL, ...) dppca_ask(est, "sd", y, by = by, ...)

dppca_quantile <- function(est, y, probs = c(0.25, 0.5, 0.75), by = NULL, ...) {
  dppca_ask(est, "quantile", c(y, format(probs, trim = TRUE, digits = 15)), by = by, ...)
}

dppca_difference <- function(est, y, by, labels = NULL, ...) {
  dppca_ask(est, "difference", y, by = by, labels = labels, ...)
}

dppca_table <- function(est, row, column, ...) dppca_ask(est, "table", c(row, column), ...)

dppca_independence <- function(est, row, column, ...) {
  dppca_ask(est, "independence", c(row, column), ...)
}

dppca_odds_ratio <- function(est, x, y, against = NULL, ...) {
  dppca_ask(est, "odds-ratio", c(x, y), against = against, ...)
}

dppca_relative_risk <- function(est, x, y, against = NULL, ...) {
  dppca_ask(est, "relative-risk", c(x, y), against = against, ...)
}

dppca_summary <- function(est, ..., by = NULL) {
  dppca_ask(est, "summary", as.character(c(...)), by = by)
}

dppca_survival <- function(est, time, event, by = NULL, ...) {
  dppca_ask(est, "survival", c(time, event), by = by, ...)
}

dppca_correlation <- function(est, ...) {
  names <- list(...)
  named <- nzchar(if (is.null(base::names(names))) rep("", length(names)) else base::names(names))
  do.call(dppca_ask, c(list(est, "correlation", unlist(names[!named])), names[named]))
}

dppca_components <- function(est, ...) dppca_ask(est, "components", ...)

dppca_rows <- function(file) {
  if (!requireNamespace("arrow", quietly = TRUE)) {
    stop_dppca("dppca_no_arrow", "rows in Parquet need the package arrow; the operator has CSV")
  }
  as.data.frame(arrow::read_parquet(file))
}
