//! Results of a run, as written to `results.json`: machine, commit, and every sample.
//!
//! Others rely on the names of the fields: fields may be added, none renamed.

use crate::machine::Machine;
use crate::statistics::Statistics;
use serde::{Deserialize, Serialize};

/// A whole run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// The machine.
    pub machine: Machine,
    /// Commit of the source tree, with `-modified` when the tree had changes; empty if unknown.
    pub commit: String,
    /// When the run began, in UTC.
    pub started: String,
    /// `quick` or `full`.
    pub effort: String,
    /// The implementations that took part.
    pub implementations: Vec<MeasuredImplementation>,
    /// Remarks: what is missing from this run, and why.
    #[serde(default)]
    pub remarks: Vec<String>,
    /// The experiments, in the order of the catalogue.
    pub experiments: Vec<ExperimentResult>,
}

/// One implementation of MPI that took part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeasuredImplementation {
    /// Name, as in the series.
    pub name: String,
    /// The version that the library reports.
    pub version: String,
    /// Additions to its launcher's command line, and why.
    pub launch: String,
}

/// Scale of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// Equal distances are equal differences.
    Linear,
    /// Equal distances are equal ratios.
    Log,
}

/// Chart of the points of a series at first; the page can switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Chart {
    /// Median as a line, quartiles as a band.
    Line,
    /// Mean as a line, minimum and maximum beside it, as one of the sources draws it.
    Range,
    /// A box plot at each place: quartiles, median, extremes.
    Box,
    /// One horizontal box plot per series: there is no x axis.
    Bars,
}

/// One experiment's outcome.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExperimentResult {
    /// Id in the catalogue.
    pub id: String,
    /// One line for people.
    pub title: String,
    /// Seed of the order of turns.
    pub seed: u64,
    /// Unit of the y axis.
    pub unit: String,
    /// Label of the x axis.
    pub x: String,
    /// Label of the y axis.
    pub y: String,
    /// Scale of the x axis.
    pub x_scale: Scale,
    /// Scale of the y axis.
    pub y_scale: Scale,
    /// Whether a smaller y is better.
    pub lower_is_better: bool,
    /// Chart that the page shows at first.
    pub chart: Chart,
    /// The series.
    pub series: Vec<Series>,
    /// Notes: how it was measured, what failed, what a reader must know.
    pub notes: Vec<String>,
}

/// Role of a series: ours, a peer or a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Weft.
    Ours,
    /// Another implementation that is compared.
    Peer,
    /// The machine without any of them.
    Device,
}

/// One line of a plot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Name in the legend.
    pub name: String,
    /// Ours, a peer or a device.
    pub role: Role,
    /// Name of the implementation, or of the device.
    pub subject: String,
    /// The mode or order that varies besides x and the implementation; empty if nothing does.
    pub variant: String,
    /// Which of the experiment's plots it belongs to; empty if there is only one.
    pub panel: String,
    /// The points, x rising.
    pub points: Vec<Point>,
}

/// One point: all samples, and their statistics.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Place on the x axis.
    pub x: f64,
    /// Their statistics; in the file these fields are beside the others.
    #[serde(flatten)]
    pub statistics: Statistics,
    /// Operations in one sample; a sample is their mean.
    pub iterations: u64,
    /// Number of separate launches that the samples come from.
    pub launches: u32,
    /// How many of the samples each launch gave, in order; empty in files that were written before it was recorded.
    #[serde(default)]
    pub samples_by_launch: Vec<usize>,
    /// Whether the standard error reached the aim before the budget ended.
    pub settled: bool,
    /// All samples, in the order in which they were taken.
    pub samples: Vec<f64>,
}

impl Point {
    /// The point of these samples, rounded to six digits: none of them is more exact than that. `by_launch` says how
    /// many of the samples each launch gave.
    pub fn new(
        x: f64,
        samples: &[f64],
        iterations: u64,
        by_launch: &[usize],
        aim: f64,
    ) -> Option<Point> {
        let samples: Vec<f64> = samples.iter().map(|sample| rounded(*sample)).collect();
        let found = Statistics::of_launches(&samples, by_launch)?;
        Some(Point {
            x,
            settled: found.relative_error() < aim,
            statistics: Statistics {
                mean: rounded(found.mean),
                median: rounded(found.median),
                q1: rounded(found.q1),
                q3: rounded(found.q3),
                stderr: rounded(found.stderr),
                median_low: rounded(found.median_low),
                median_high: rounded(found.median_high),
                confidence: rounded(found.confidence),
                ..found
            },
            iterations,
            launches: u32::try_from(by_launch.len()).unwrap_or(u32::MAX),
            samples_by_launch: by_launch.to_vec(),
            samples,
        })
    }
}

/// A number with six significant digits.
pub fn rounded(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

impl Results {
    /// The results as text for `results.json`.
    ///
    /// # Errors
    /// If the results hold something that JSON cannot: a key that is not text. Measured results never do.
    pub fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string(self).map(|text| text + "\n")
    }

    /// Reads what [`Results::to_json`] wrote.
    ///
    /// # Errors
    /// If the text is not JSON, or a field is missing or of another type; the error says where.
    pub fn from_json(text: &str) -> serde_json::Result<Results> {
        serde_json::from_str(text)
    }
}

impl Results {
    /// Whether any series is Weft's.
    pub fn has_ours(&self) -> bool {
        let mut all = self
            .experiments
            .iter()
            .flat_map(|experiment| &experiment.series);
        all.any(|series| series.role == Role::Ours)
    }
}

impl ExperimentResult {
    /// The series of an implementation or device, in a panel and variant.
    pub fn series(&self, subject: &str, panel: &str, variant: &str) -> Option<&Series> {
        self.series.iter().find(|series| {
            series.subject == subject && series.panel == panel && series.variant == variant
        })
    }
}

impl Series {
    /// The point at a place of the x axis.
    pub fn at(&self, x: f64) -> Option<&Point> {
        self.points.iter().find(|point| point.x == x)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A small run with invented figures: 8 B at 0.2 µs ours, 0.3 and 0.6 µs the peers.
    pub(crate) fn sample() -> Results {
        let series = |name: &str, role, scale: f64| Series {
            name: name.into(),
            role,
            subject: name.into(),
            variant: String::new(),
            panel: String::new(),
            points: [8.0, 64.0]
                .iter()
                .filter_map(|x| {
                    let samples: Vec<f64> = (0..9)
                        .map(|step| scale * (1.0 + x / 640.0) + 0.001 * f64::from(step))
                        .collect();
                    Point::new(*x, &samples, 1000, &[5, 4], 0.01)
                })
                .collect(),
        };
        Results {
            machine: Machine {
                cpu: "a <processor> & more".into(),
                cores: 2,
                ..Machine::default()
            },
            commit: "0123abcd".into(),
            started: "2026-01-02T03:04:05Z".into(),
            effort: "quick".into(),
            implementations: vec![],
            remarks: vec!["nobody else".into()],
            experiments: vec![ExperimentResult {
                id: "latency-single".into(),
                title: "Latency".into(),
                seed: 1,
                unit: "µs".into(),
                x: "message size [B]".into(),
                y: "latency [µs]".into(),
                x_scale: Scale::Log,
                y_scale: Scale::Log,
                lower_is_better: true,
                chart: Chart::Line,
                series: vec![
                    series("Weft", Role::Ours, 0.2),
                    series("MPICH", Role::Peer, 0.6),
                    series("Open MPI", Role::Peer, 0.3),
                ],
                notes: vec!["</script><b>not markup</b>".into()],
            }],
        }
    }

    #[test]
    fn json_there_and_back() {
        let results = sample();
        let text = results.to_json().expect("serialises");
        assert_eq!(Results::from_json(&text).expect("reads"), results);
        assert_eq!(
            Results::from_json(&text)
                .expect("reads")
                .to_json()
                .expect("serialises"),
            text
        );
    }

    #[test]
    fn files_without_samples_by_launch_are_read_as_they_are() {
        let mut old: serde_json::Value =
            serde_json::from_str(&sample().to_json().expect("serialises")).expect("JSON");
        let point = &mut old["experiments"][0]["series"][0]["points"][0];
        let fields = point.as_object_mut().expect("an object");
        assert!(fields.remove("samples_by_launch").is_some());
        let read = Results::from_json(&old.to_string()).expect("reads");
        let (read, new) = (
            &read.experiments[0].series[0],
            &sample().experiments[0].series[0],
        );
        assert_eq!(read.points[0].samples_by_launch, [0; 0]);
        assert_eq!(read.points[0].statistics, new.points[0].statistics);
    }

    #[test]
    fn json_has_the_agreed_names() {
        let text = sample().to_json().expect("serialises");
        let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert!(value["machine"].is_object() && value["commit"].is_string());
        let experiment = &value["experiments"][0];
        for name in ["id", "title", "seed", "unit", "x", "series", "notes"] {
            assert!(!experiment[name].is_null(), "experiment has no {name}");
        }
        let point = &experiment["series"][0]["points"][0];
        for name in [
            "x", "n", "mean", "median", "min", "max", "q1", "q3", "stderr", "samples",
        ] {
            assert!(!point[name].is_null(), "point has no {name}");
        }
    }
}
