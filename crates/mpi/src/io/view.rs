//! View: which bytes of a file a rank sees, and in which order (MPI 5.0, section 14.3).
//!
//! ```text
//!   displacement      filetype          filetype          …  without end
//!   ├────────────────┼──██──██────────┼──██──██──────────┤
//!                       ▲   ▲             ▲
//!              byte 0 of the data …       the first byte of the second filetype's data
//! ```
//!
//! Callers count positions in etypes; here they are counted in bytes of data. There is no list of all pieces: the
//! [cursor](super::cursor) asks for those of a stretch of data at a time.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::representation::Representation;
use crate::datatype::{Basic, Datatype, PieceOrder};
use crate::error::{Error, ErrorClass, Result};

/// A view. It never changes; `MPI_File_set_view` replaces it.
#[derive(Debug)]
pub struct View {
    displacement: u64,
    /// As the program gave them.
    etype: Arc<Datatype>,
    filetype: Arc<Datatype>,
    representation: Representation,
    /// The filetype as its data lie in the file, which differs from the one given if the representation has sizes of
    /// its own.
    in_file: Arc<Datatype>,
    /// Bytes of an etype in the file.
    unit: u64,
    order: PieceOrder,
}

impl View {
    /// The view of a file just opened: its bytes.
    #[must_use]
    pub fn of_bytes() -> Self {
        let byte = Basic::Byte.datatype();
        Self {
            displacement: 0,
            etype: Arc::clone(byte),
            filetype: Arc::clone(byte),
            representation: Representation::Native,
            in_file: Arc::clone(byte),
            unit: 1,
            order: PieceOrder::Disjoint,
        }
    }

    /// A view. `written` tells whether the file may be written, which forbids overlaps.
    ///
    /// # Errors
    /// `Type` if the filetype is not made of etypes, has negative displacements, or does not come in order.
    pub fn new(
        displacement: u64,
        etype: &Arc<Datatype>,
        filetype: &Arc<Datatype>,
        representation: Representation,
        written: bool,
    ) -> Result<Self> {
        check_order("etype", etype, written)?;
        check_order("filetype", filetype, written)?;
        let etype_in_file = representation.in_file(etype)?;
        let in_file = representation.in_file(filetype)?;
        let unit = etype_in_file.size() as u64;
        if unit == 0 || !(in_file.size() as u64).is_multiple_of(unit) {
            return Err(Error::new(
                ErrorClass::Type,
                format!(
                    "a filetype with {} bytes of data is no whole number of etypes with {unit}; build the filetype from the etype",
                    in_file.size(),
                ),
            ));
        }
        if in_file.size() > 0 && in_file.extent() <= 0 {
            return Err(Error::new(
                ErrorClass::Type,
                format!(
                    "a filetype of extent {} cannot be repeated through a file; resize it to at least its data",
                    in_file.extent()
                ),
            ));
        }
        Ok(Self {
            displacement,
            etype: Arc::clone(etype),
            filetype: Arc::clone(filetype),
            order: in_file.repeated_order(),
            representation,
            in_file,
            unit,
        })
    }

    /// Where it begins.
    #[must_use]
    pub fn displacement(&self) -> u64 {
        self.displacement
    }

    /// The unit of positions.
    #[must_use]
    pub fn etype(&self) -> &Arc<Datatype> {
        &self.etype
    }

    /// The template.
    #[must_use]
    pub fn filetype(&self) -> &Arc<Datatype> {
        &self.filetype
    }

    /// How data are written in the file.
    #[must_use]
    pub fn representation(&self) -> &Representation {
        &self.representation
    }

    /// Bytes of an etype in the file.
    #[must_use]
    pub fn unit(&self) -> u64 {
        self.unit
    }

    /// Whether data that come later lie further on in the file.
    #[must_use]
    pub fn is_sorted(&self) -> bool {
        self.order == PieceOrder::Disjoint
    }

    /// Whether all data are one piece.
    pub(super) fn is_contiguous(&self) -> bool {
        self.in_file
            .flat(1)
            .is_some_and(|(_, bytes)| bytes.cast_signed() == self.in_file.extent())
    }

    /// Bytes of a piece, on average.
    pub(super) fn piece_length(&self) -> u64 {
        if self.is_contiguous() {
            u64::MAX
        } else {
            self.in_file.size() as u64 / self.in_file.piece_count().max(1)
        }
    }

    /// Byte of the data at which the etype number `position` begins.
    ///
    /// # Errors
    /// `Arg` if no file reaches so far.
    pub fn byte_of(&self, position: i64) -> Result<u64> {
        let byte = u64::try_from(position)
            .ok()
            .and_then(|position| position.checked_mul(self.unit));
        byte.filter(|byte| self.reaches(*byte)).ok_or_else(|| {
            Error::new(
                ErrorClass::Arg,
                format!(
                    "no file has a place {position} etypes into this view; give an offset of at least 0 that fits MPI_Offset"
                ),
            )
        })
    }

    /// Whether that byte of the data has a place in some file.
    pub(super) fn reaches(&self, byte: u64) -> bool {
        let size = self.in_file.size() as u64;
        if size == 0 {
            // It has no place, and nobody who has bytes may come here.
            return true;
        }
        let tiles = i128::from(byte / size) + 1;
        let reach = tiles * self.in_file.extent() as i128 + i128::from(self.displacement);
        reach + self.in_file.true_lower_bound() as i128 <= i128::from(i64::MAX)
    }

    /// Where byte `byte` of the data lies in the file.
    #[must_use]
    pub fn place_of(&self, byte: u64) -> u64 {
        let mut place = self.displacement;
        let size = self.in_file.size() as u64;
        if size == 0 {
            return place;
        }
        // Whole tiles by arithmetic: the walk is in memory's numbers.
        let tiles = byte / size;
        self.in_file
            .pieces((byte % size) as usize, 1, |offset, _, _, _| {
                place = place
                    .wrapping_add(tiles.wrapping_mul(self.in_file.extent() as u64))
                    .wrapping_add_signed(offset as i64);
                ControlFlow::Break(())
            });
        place
    }

    /// How many etypes begin before byte `size` of the file: where its end is in this view.
    #[must_use]
    pub fn etypes_before(&self, size: u64) -> u64 {
        let data = self.in_file.size() as u64;
        if size <= self.displacement || data == 0 {
            return 0;
        }
        let each = data / self.unit;
        let extent = self.in_file.extent().max(1) as u64;
        // No tile before this one reaches the end, none from two further on begins before it.
        let tiles = (size - self.displacement) / extent;
        let (mut low, mut high) = (
            tiles.saturating_sub(1).saturating_mul(each),
            tiles.saturating_add(2).saturating_mul(each),
        );
        while low < high {
            let middle = low + (high - low) / 2;
            if self.place_of(middle * self.unit) < size {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Calls `visit` with (place in the file, number, stride, bytes of each) of the pieces that hold `length` bytes of the
    /// data from byte `from` on, in order, until it breaks off.
    pub(super) fn pieces(
        &self,
        from: u64,
        length: u64,
        mut visit: impl FnMut(u64, u64, u64, u64) -> ControlFlow<()>,
    ) {
        let size = self.in_file.size() as u64;
        if size == 0 {
            return;
        }
        if self.is_contiguous() {
            let _ended = visit(self.place_of(from), 1, 0, length);
            return;
        }
        let tiles = from / size;
        let base = self
            .displacement
            .wrapping_add(tiles.wrapping_mul(self.in_file.extent() as u64));
        self.in_file.pieces(
            (from % size) as usize,
            length as usize,
            |offset, count, stride, bytes| {
                visit(
                    base.wrapping_add_signed(offset as i64),
                    count as u64,
                    stride as u64,
                    bytes as u64,
                )
            },
        );
    }
}

/// What the standard asks of etypes and filetypes.
fn check_order(name: &str, datatype: &Datatype, written: bool) -> Result<()> {
    let wrong = |what: &str, remedy: &str| {
        Err(Error::new(
            ErrorClass::Type,
            format!("the {name} {what}; {remedy}"),
        ))
    };
    if datatype.size() > 0 && datatype.true_lower_bound() < 0 {
        return wrong(
            "has data before its origin",
            "displacements in a file are at least 0",
        );
    }
    match datatype.piece_order() {
        PieceOrder::Decreasing => wrong(
            "has displacements that decrease",
            "list the pieces in the order in which they lie in the file",
        ),
        PieceOrder::Overlapping if written => wrong(
            "has pieces that overlap",
            "open the file for reading only, or build the datatype without overlaps",
        ),
        PieceOrder::Overlapping | PieceOrder::Disjoint => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datatype::Recipe;

    fn int() -> &'static Arc<Datatype> {
        Basic::Int.datatype()
    }

    fn view(displacement: u64, filetype: &Arc<Datatype>) -> View {
        View::new(displacement, int(), filetype, Representation::Native, true).unwrap()
    }

    /// Two ints, a gap of one, tiles of 16 bytes.
    fn gaps() -> Arc<Datatype> {
        let two = Datatype::contiguous(2, int()).unwrap();
        Datatype::resized(0, 16, &two).unwrap()
    }

    #[test]
    fn positions_have_places() {
        let view = view(5, &gaps());
        let places: Vec<u64> = [0, 4, 8, 12, 17].map(|byte| view.place_of(byte)).into();
        assert_eq!(places, [5, 9, 21, 25, 38]);
        assert_eq!(view.place_of(view.byte_of(1 << 40).unwrap()), 5 + (1 << 43));
        assert!(view.byte_of(-1).is_err() && view.byte_of(i64::MAX).is_err());
        assert!(view.byte_of(i64::MAX / 8).is_err());
    }

    #[test]
    fn the_end_of_the_file_is_found_in_the_view() {
        let view = view(5, &gaps());
        for (size, etypes) in [
            (0, 0),
            (5, 0),
            (6, 1),
            (9, 1),
            (10, 2),
            (13, 2),
            (21, 2),
            (22, 3),
        ] {
            assert_eq!(view.etypes_before(size), etypes, "{size}");
        }
        assert_eq!(view.etypes_before(5 + (1 << 43)), 1 << 40);
        assert_eq!(View::of_bytes().etypes_before(77), 77);
    }

    #[test]
    fn what_is_no_view_is_refused() {
        let refused = |filetype: &Arc<Datatype>, written| {
            View::new(0, int(), filetype, Representation::Native, written).is_err()
        };
        let overlapping = Datatype::vector(2, 2, 1, int()).unwrap();
        assert!(refused(&overlapping, true) && !refused(&overlapping, false));
        let backwards = Datatype::vector(2, 1, -1, int()).unwrap();
        assert!(refused(&backwards, false));
        assert!(refused(Basic::Short.datatype(), true), "half an etype");
        let early = Recipe::Hindexed {
            blocks: [1].into(),
            displacements: [-4].into(),
            of: Arc::clone(int()),
        };
        assert!(refused(&Datatype::build(early, false).unwrap(), true));
        let flat = Datatype::resized(0, 0, int()).unwrap();
        assert!(refused(&flat, false), "tiles that do not move on");
        let narrow = Datatype::resized(0, 4, &Datatype::vector(3, 1, 4, int()).unwrap()).unwrap();
        assert!(!refused(&narrow, true) && !view(0, &narrow).is_sorted());
    }
}
