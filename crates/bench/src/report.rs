//! Report: a page in one file, which needs no network and is a pure function of the results.
//!
//! The page contains the results as data, with the comparison table computed here; a small script in the page
//! draws plots as inline SVG and answers hover, legend and axis switches. Nothing depends on time,
//! environment or the order of a hash map, so the same JSON gives the same bytes.

use crate::results::Results;
use crate::summary;
use anyhow::{Context, Result};

/// The page of these results.
///
/// # Errors
/// If the results hold something that JSON cannot: a key that is not text. Measured results never do.
pub fn page(results: &Results) -> Result<String> {
    let data = results
        .to_json()
        .context("the results cannot be written as JSON")?;
    let rows = serde_json::to_string(&summary::rows(results))
        .context("the comparison cannot be written as JSON")?;
    Ok(include_str!("page/page.html")
        .replace("{{style}}", include_str!("page/style.css"))
        .replace("{{plot}}", include_str!("page/plot.js"))
        .replace("{{script}}", include_str!("page/page.js"))
        .replace("{{summary}}", &inert(&rows))
        .replace("{{results}}", &inert(data.trim_end())))
}

/// JSON that is safe inside a script element: no character of it can end the element.
fn inert(json: &str) -> String {
    json.replace('&', "\\u0026")
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::sample;

    #[test]
    fn the_same_json_gives_the_same_bytes() {
        let results = sample();
        let text = results.to_json().expect("JSON");
        let again = Results::from_json(&text).expect("reads");
        assert_eq!(page(&results).expect("page"), page(&again).expect("page"));
    }

    #[test]
    fn the_page_needs_nothing_else_and_holds_all() {
        let page = page(&sample()).expect("page");
        assert!(
            !page.contains("{{"),
            "a place of the template was not filled"
        );
        let fetched = ["src=\"http", "href=\"http", "@import", "url(http", "fetch("];
        for reference in fetched {
            assert!(!page.contains(reference), "the page refers to {reference}");
        }
        let start = page.find("id=\"results\">").expect("data") + "id=\"results\">".len();
        let end = start + page[start..].find("</script>").expect("end of the data");
        assert_eq!(
            Results::from_json(&page[start..end]).expect("data is JSON"),
            sample()
        );
    }

    #[test]
    fn data_cannot_become_markup() {
        let page = page(&sample()).expect("page");
        assert!(!page.contains("<b>not markup</b>"));
        assert!(!page.contains("a <processor>"));
    }
}
