//! Places of call sites: file and line, read from debug information when time no longer matters.

use weft_sys::call_site::CallSite;

use super::Recorder;

/// Names all sites.
pub fn name_sites(recorder: &Recorder) {
    // Reading debug information takes more stack than a fiber may have.
    if weft_fiber::is_fiber() {
        return;
    }
    for area in recorder.used() {
        for (place, address) in area.sites() {
            let text = CallSite::at(address).describe();
            area.name(place, recorder.text(&text));
        }
    }
    recorder.set_named();
}
