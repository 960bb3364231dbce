# Slopes of DPrivStats: Rscript regressions_guest.R FOLDER RELEASES ROWS COLUMNS MODELS EPSILON DELTA SEED
# FOLDER/tables.bin has doubles, one column after the other, each in [-1, 1]; FOLDER/found.bin gets slopes and both
# ends, nan where there are none, the last index fastest, and after them the processor seconds of all releases.
suppressPackageStartupMessages(library(DPrivStats))
given <- commandArgs(trailingOnly = TRUE)
size <- as.integer(given[2:4])
models <- strsplit(strsplit(given[5], ";")[[1]], ":")
epsilon <- as.numeric(given[6]) / length(models)
delta <- as.numeric(given[7]) / length(models)
set.seed(as.integer(given[8]))

fit_slopes <- function(rows, kind, outcome, regressors) {
  data <- data.frame(y = rows[, outcome], rows[, regressors])
  count <- length(regressors)
  if (kind == "logistic") {
    data$y <- as.numeric(data$y > 0)
    # In a tenth of the time as far as its 1,000 steps of .01, with as much noise on the way.
    fit <- dp_glm(
      y ~ ., data, binomial(), epsilon = epsilon, delta = delta, bounds = list(y = c(0, 1)), n_iter = 100, lr = 0.1
    )
    return(cbind(fit$coefficients, NaN, NaN)[-1, ])
  }
  bounds <- list(y = c(-1, 1), x_norm = sqrt(1 + count))
  fit <- dp_lm(y ~ ., data, epsilon = epsilon, delta = delta, bounds = bounds, assume_public_design = FALSE)
  unclass(confint(fit))[-1, ]
}

tables <- file(file.path(given[1], "tables.bin"), "rb")
found <- numeric(0)
begin <- proc.time()
for (release in seq_len(size[1])) {
  rows <- matrix(readBin(tables, "double", size[2] * size[3]), size[2])
  for (model in models) {
    regressors <- as.integer(strsplit(model[3], ",")[[1]])
    slopes <- fit_slopes(rows, model[1], as.integer(model[2]), regressors)
    found <- c(found, t(slopes))
  }
}
writeBin(c(found, sum((proc.time() - begin)[1:2])), file.path(given[1], "found.bin"))
