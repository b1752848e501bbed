//! The measuring harness: experiments as values, statistics, report.
