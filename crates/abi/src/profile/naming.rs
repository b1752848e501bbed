//! Places of call sites: file and line, read from debug information once nothing is urgent.

use weft_sys::call_site::CallSite;

use super::Recorder;

impl Recorder {
    /// Names all sites.
    pub fn name_sites(&self) {
        // Reading debug information takes more stack than a fiber may have.
        if weft_fiber::is_fiber() {
            return;
        }
        for area in self.used() {
            for (place, address) in area.sites() {
                let text = CallSite::at(address).describe();
                area.name(place, self.text(&text));
            }
        }
        self.set_named();
    }
}
