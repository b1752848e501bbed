//! Slabs whose entries are linked into lists: an entry may stand in `N` lists at once.

use std::ops::{Index, IndexMut};

/// No entry, no bucket.
pub(crate) const NONE: u32 = u32::MAX;

/// Neighbours of an entry in one list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    before: u32,
    after: u32,
}

/// Ends of a list: oldest and newest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List {
    pub head: u32,
    pub tail: u32,
}

impl List {
    pub(crate) const EMPTY: Self = Self {
        head: NONE,
        tail: NONE,
    };

    pub(crate) fn is_empty(&self) -> bool {
        self.head == NONE
    }
}

#[derive(Debug)]
struct Entry<T, const N: usize> {
    value: Option<T>,
    generation: u32,
    links: [Link; N],
}

/// Entries by index; a removed entry's index is given out again with another generation.
#[derive(Debug)]
pub(crate) struct Slab<T, const N: usize> {
    entries: Vec<Entry<T, N>>,
    free: Vec<u32>,
}

impl<T, const N: usize> Default for Slab<T, N> {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T, const N: usize> Slab<T, N> {
    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    #[inline]
    pub(crate) fn insert(&mut self, value: T) -> u32 {
        if let Some(index) = self.free.pop() {
            self.entries[index as usize].value = Some(value);
            return index;
        }
        let links = [Link {
            before: NONE,
            after: NONE,
        }; N];
        self.entries.push(Entry {
            value: Some(value),
            generation: 0,
            links,
        });
        u32::try_from(self.entries.len() - 1)
            .expect("four thousand million entries do not fit in memory")
    }

    /// Removes an entry that stands in no list any more.
    #[inline]
    pub(crate) fn remove(&mut self, index: u32) -> T {
        let entry = &mut self.entries[index as usize];
        entry.generation = entry.generation.wrapping_add(1);
        self.free.push(index);
        entry.value.take().expect("removed once")
    }

    pub(crate) fn is_live(&self, index: u32) -> bool {
        self.entries
            .get(index as usize)
            .is_some_and(|entry| entry.value.is_some())
    }

    pub(crate) fn generation(&self, index: u32) -> u32 {
        self.entries[index as usize].generation
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.entries
            .iter()
            .zip(0..)
            .filter_map(|(entry, index)| Some((index, entry.value.as_ref()?)))
    }

    /// Appends an entry to a list, by its link number `which`.
    #[inline]
    pub(crate) fn push(&mut self, list: &mut List, index: u32, which: usize) {
        self.entries[index as usize].links[which] = Link {
            before: list.tail,
            after: NONE,
        };
        match list.tail {
            NONE => list.head = index,
            tail => self.entries[tail as usize].links[which].after = index,
        }
        list.tail = index;
    }

    /// Takes an entry out of a list.
    #[inline]
    pub(crate) fn unlink(&mut self, list: &mut List, index: u32, which: usize) {
        let Link { before, after } = self.entries[index as usize].links[which];
        match before {
            NONE => list.head = after,
            before => self.entries[before as usize].links[which].after = after,
        }
        match after {
            NONE => list.tail = before,
            after => self.entries[after as usize].links[which].before = before,
        }
    }
}

impl<T, const N: usize> Index<u32> for Slab<T, N> {
    type Output = T;
    #[inline]
    fn index(&self, index: u32) -> &T {
        self.entries[index as usize]
            .value
            .as_ref()
            .expect("a listed entry is live")
    }
}

impl<T, const N: usize> IndexMut<u32> for Slab<T, N> {
    #[inline]
    fn index_mut(&mut self, index: u32) -> &mut T {
        self.entries[index as usize]
            .value
            .as_mut()
            .expect("a listed entry is live")
    }
}
