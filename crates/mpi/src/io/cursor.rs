//! Cursor: goes once through the pieces of an access, in order, and returns them as runs.
//!
//! It looks some runs ahead: the pieces of a regular filetype are few runs even if they are many.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use super::run::{Run, RunList};
use super::view::View;

/// Runs that are looked ahead.
const AHEAD: usize = 1024;

/// Where an access has come to.
#[derive(Debug)]
pub(super) struct Cursor<'a> {
    view: &'a View,
    /// The first byte of the data that was not asked for yet, and the one after the last of the access.
    next: u64,
    end: u64,
    ahead: VecDeque<Run>,
}

impl<'a> Cursor<'a> {
    /// Goes through `bytes` bytes of the data of a view from byte `from`.
    pub fn new(view: &'a View, from: u64, bytes: u64) -> Self {
        Self {
            view,
            next: from,
            end: from + bytes,
            ahead: VecDeque::new(),
        }
    }

    /// Where the next piece begins, if there is one.
    pub fn place(&mut self) -> Option<u64> {
        self.look_ahead();
        self.ahead.front().map(|run| run.offset)
    }

    #[inline]
    fn look_ahead(&mut self) {
        if self.ahead.is_empty() && self.next < self.end {
            self.refill();
        }
    }

    fn refill(&mut self) {
        let mut list = RunList::default();
        self.view.pieces(
            self.next,
            self.end - self.next,
            |offset, count, stride, bytes| {
                list.push(Run {
                    offset,
                    length: bytes,
                    stride,
                    count,
                });
                if list.runs().len() < AHEAD {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            },
        );
        // A filetype without data: no access has bytes in it.
        self.next = if list.is_empty() {
            self.end
        } else {
            self.next + list.bytes()
        };
        self.ahead.extend(list.runs());
    }

    /// The next run, whole.
    pub fn next_run(&mut self) -> Option<Run> {
        self.look_ahead();
        self.ahead.pop_front()
    }

    /// Takes what lies before `limit` of the pieces that come next; a piece across it is cut. The view is sorted.
    pub fn take_before(&mut self, limit: u64, into: &mut RunList) {
        loop {
            self.look_ahead();
            let Some(run) = self.ahead.front_mut() else {
                return;
            };
            if run.offset >= limit {
                return;
            }
            // Pieces that begin before the limit.
            let begun = if run.count == 1 {
                1
            } else {
                run.count.min((limit - run.offset).div_ceil(run.stride))
            };
            let last = run.place(begun - 1);
            let over = (last + run.length).saturating_sub(limit);
            let whole = begun - u64::from(over > 0);
            into.push(Run {
                count: whole,
                ..*run
            });
            if over > 0 {
                let inside = run.length - over;
                into.push(Run::piece(last, inside));
                let rest = Run {
                    offset: run.place(begun),
                    count: run.count - begun,
                    ..*run
                };
                *run = Run::piece(last + inside, over);
                if rest.count > 0 {
                    self.ahead.insert(1, rest);
                }
                return;
            }
            run.offset = run.place(begun);
            run.count -= begun;
            if run.count == 0 {
                self.ahead.pop_front();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::representation::Representation;
    use super::*;
    use crate::datatype::{Basic, Datatype, Recipe};

    fn pieces(list: &RunList) -> Vec<(u64, u64)> {
        let each = |run: &Run| run.pieces().collect::<Vec<_>>();
        list.runs().iter().flat_map(each).collect()
    }

    fn view(filetype: &Arc<Datatype>) -> View {
        let byte = Basic::Byte.datatype();
        View::new(3, byte, filetype, Representation::Native, true).unwrap()
    }

    #[test]
    fn a_regular_view_is_one_run() {
        let byte = Basic::Byte.datatype();
        let block = Datatype::contiguous(64, byte).unwrap();
        let view = view(&Datatype::resized(0, 256, &block).unwrap());
        let mut cursor = Cursor::new(&view, 0, 64 << 20);
        let mut list = RunList::default();
        cursor.take_before(u64::MAX, &mut list);
        assert_eq!(list.runs().len(), 1, "{:?}", list.runs());
        assert_eq!((list.bytes(), cursor.place()), (64 << 20, None));
    }

    #[test]
    fn windows_cut_what_lies_across_them() {
        let byte = Basic::Byte.datatype();
        let recipe = Recipe::Indexed {
            blocks: [3, 5, 1, 2].into(),
            displacements: [0, 4, 11, 13].into(),
            of: Arc::clone(byte),
        };
        let filetype = Datatype::resized(0, 20, &Datatype::build(recipe, false).unwrap()).unwrap();
        let view = view(&filetype);
        let bytes = |list: &[(u64, u64)]| -> Vec<u64> {
            let each = |&(offset, length): &(u64, u64)| offset..offset + length;
            list.iter().flat_map(each).collect()
        };
        let mut whole = RunList::default();
        Cursor::new(&view, 2, 500).take_before(u64::MAX, &mut whole);
        for window in [1, 2, 3, 7, 16, 1000] {
            let mut cursor = Cursor::new(&view, 2, 500);
            let mut found = Vec::new();
            while let Some(place) = cursor.place() {
                let limit = (place / window + 1) * window;
                let mut list = RunList::default();
                cursor.take_before(limit, &mut list);
                assert!(list.runs().iter().all(|run| run.end() <= limit));
                found.extend(pieces(&list));
            }
            assert_eq!(bytes(&found), bytes(&pieces(&whole)), "{window}");
        }
    }
}
