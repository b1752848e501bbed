//! Topology of this machine: which of its cores share a package, a memory node, a cache; found by hwloc's library, which is
//! opened at run time.
//!
//! Without that library ([`LIBRARY`]) each hardware thread counts as a core, and what they share is unknown.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::io;
use std::ptr;

/// The library that knows topologies: hwloc, version 2.
pub const LIBRARY: &str = "libhwloc.so.15";

/// The parts that hardware threads can have in common, from the largest to the smallest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Level {
    /// A package, which fills a socket.
    Package,
    /// A memory node.
    MemoryNode,
    /// A cache of the third level.
    L3Cache,
    /// A cache of the second level.
    L2Cache,
    /// A cache of the first level.
    L1Cache,
    /// A core.
    Core,
    /// One hardware thread.
    HardwareThread,
}

impl Level {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Package,
        Self::MemoryNode,
        Self::L3Cache,
        Self::L2Cache,
        Self::L1Cache,
        Self::Core,
        Self::HardwareThread,
    ];

    /// Its name for users.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Package => "package",
            Self::MemoryNode => "memory node",
            Self::L3Cache => "L3 cache",
            Self::L2Cache => "L2 cache",
            Self::L1Cache => "L1 cache",
            Self::Core => "core",
            Self::HardwareThread => "hardware thread",
        }
    }

    /// Its name for hwloc.
    fn key(self) -> &'static CStr {
        match self {
            Self::Package => c"package",
            Self::MemoryNode => c"numanode",
            Self::L3Cache => c"l3cache",
            Self::L2Cache => c"l2cache",
            Self::L1Cache => c"l1cache",
            Self::Core => c"core",
            Self::HardwareThread => c"pu",
        }
    }
}

/// One object of a topology: its number in the kernel, and its hardware threads, ascending.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Object {
    /// Its number among those of its kind.
    pub number: u32,
    /// The numbers of its hardware threads.
    pub threads: Vec<usize>,
}

/// The objects of a machine, level by level.
///
/// *Invariant:* objects have threads; those of a level are in the order in which hwloc numbers them, neighbours together.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Topology {
    levels: BTreeMap<Level, Vec<Object>>,
}

impl Topology {
    /// A topology of these objects.
    #[must_use]
    pub fn new(levels: impl IntoIterator<Item = (Level, Vec<Object>)>) -> Self {
        let levels = levels.into_iter().collect();
        Self { levels }
    }

    /// A topology of hardware threads about which nothing else is known.
    #[must_use]
    pub fn flat(threads: &[usize]) -> Self {
        let one = |(number, thread): (usize, &usize)| Object {
            number: number as u32,
            threads: vec![*thread],
        };
        let each: Vec<Object> = threads.iter().enumerate().map(one).collect();
        Self::new([(Level::Core, each.clone()), (Level::HardwareThread, each)])
    }

    /// The topology of this machine.
    ///
    /// # Errors
    /// If hwloc's library is not there, or finds nothing.
    pub fn of_this_machine() -> io::Result<Self> {
        Hwloc::open()?.load(None)
    }

    /// An imaginary machine, in hwloc's notation: `"pack:2 l3:2 core:4 pu:2"`.
    ///
    /// # Errors
    /// If hwloc's library is not there, or the description is invalid.
    pub fn synthetic(description: &str) -> io::Result<Self> {
        Hwloc::open()?.load(Some(description))
    }

    /// The part of it that may be used.
    #[must_use]
    pub fn within(&self, threads: &[usize]) -> Self {
        let cut = |object: &Object| Object {
            number: object.number,
            threads: (object.threads.iter().copied())
                .filter(|thread| threads.contains(thread))
                .collect(),
        };
        let level = |(level, objects): (&Level, &Vec<Object>)| {
            let objects = objects.iter().map(cut);
            let objects = objects.filter(|object| !object.threads.is_empty());
            (*level, objects.collect())
        };
        Self::new(self.levels.iter().map(level))
    }

    /// The objects of a level; none if it is not known.
    #[must_use]
    pub fn objects(&self, level: Level) -> &[Object] {
        self.levels.get(&level).map_or(&[], Vec::as_slice)
    }

    /// The object of a level that a hardware thread belongs to, as an index into its level.
    #[must_use]
    pub fn object_of(&self, level: Level, thread: usize) -> Option<usize> {
        let objects = self.objects(level);
        objects
            .iter()
            .position(|object| object.threads.contains(&thread))
    }
}

/// The beginning of `struct hwloc_obj` of hwloc 2: as far as its set of hardware threads.
#[repr(C)]
struct HwlocObject {
    kind: c_int,
    subtype: *const c_char,
    number: c_uint,
    name: *const c_char,
    total_memory: u64,
    attributes: *const c_void,
    depth: c_int,
    logical: c_uint,
    next_cousin: *const c_void,
    previous_cousin: *const c_void,
    parent: *const c_void,
    sibling_rank: c_uint,
    siblings: [*const c_void; 2],
    arity: c_uint,
    children: [*const c_void; 3],
    symmetric: c_int,
    memory_arity: c_uint,
    memory_child: *const c_void,
    io_arity: c_uint,
    io_child: *const c_void,
    misc_arity: c_uint,
    misc_child: *const c_void,
    threads: *const c_void,
}

type Handle = *mut c_void;
type Version = unsafe extern "C" fn() -> c_uint;
type Init = unsafe extern "C" fn(*mut Handle) -> c_int;
type SetSynthetic = unsafe extern "C" fn(Handle, *const c_char) -> c_int;
type Load = unsafe extern "C" fn(Handle) -> c_int;
type Destroy = unsafe extern "C" fn(Handle);
type ParseKind = unsafe extern "C" fn(*const c_char, *mut c_int, *mut c_void, usize) -> c_int;
type DepthOf = unsafe extern "C" fn(Handle, c_int) -> c_int;
type Count = unsafe extern "C" fn(Handle, c_int) -> c_uint;
type ObjectAt = unsafe extern "C" fn(Handle, c_int, c_uint) -> *const HwlocObject;
type NextBit = unsafe extern "C" fn(*const c_void, c_int) -> c_int;

/// hwloc's library, opened; it stays open.
struct Hwloc {
    init: Init,
    set_synthetic: SetSynthetic,
    load: Load,
    destroy: Destroy,
    parse_kind: ParseKind,
    depth_of: DepthOf,
    count: Count,
    object: ObjectAt,
    next: NextBit,
}

/// There is no depth for such objects, or several.
const NO_DEPTH: [c_int; 2] = [-1, -2];

impl Hwloc {
    fn open() -> io::Result<Self> {
        let missing = |what: &str| {
            io::Error::new(
                io::ErrorKind::NotFound,
                format!("{LIBRARY} {what} (Debian: package libhwloc15; Red Hat: hwloc-libs)"),
            )
        };
        let name = CString::new(LIBRARY)?;
        // SAFETY: a name that ends; the library's initialisers are those of a library that any program may open.
        let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if library.is_null() {
            return Err(missing("is not installed"));
        }
        let find = |name: &CStr| {
            // SAFETY: the library was opened and is never closed; the name ends.
            let found = unsafe { libc::dlsym(library, name.as_ptr()) };
            match found.is_null() {
                true => Err(missing("lacks functions of hwloc 2")),
                false => Ok(found),
            }
        };
        // SAFETY: the functions have these types in all versions with this name of the library (hwloc 2).
        let version =
            unsafe { std::mem::transmute::<*mut c_void, Version>(find(c"hwloc_get_api_version")?) };
        // SAFETY: it takes nothing and returns a number.
        if unsafe { version() } >> 16 != 2 {
            return Err(missing("is not of version 2"));
        }
        // SAFETY: as above.
        unsafe {
            Ok(Self {
                init: std::mem::transmute::<*mut c_void, Init>(find(c"hwloc_topology_init")?),
                set_synthetic: std::mem::transmute::<*mut c_void, SetSynthetic>(find(
                    c"hwloc_topology_set_synthetic",
                )?),
                load: std::mem::transmute::<*mut c_void, Load>(find(c"hwloc_topology_load")?),
                destroy: std::mem::transmute::<*mut c_void, Destroy>(find(
                    c"hwloc_topology_destroy",
                )?),
                parse_kind: std::mem::transmute::<*mut c_void, ParseKind>(find(
                    c"hwloc_type_sscanf",
                )?),
                depth_of: std::mem::transmute::<*mut c_void, DepthOf>(find(
                    c"hwloc_get_type_depth",
                )?),
                count: std::mem::transmute::<*mut c_void, Count>(find(
                    c"hwloc_get_nbobjs_by_depth",
                )?),
                object: std::mem::transmute::<*mut c_void, ObjectAt>(find(
                    c"hwloc_get_obj_by_depth",
                )?),
                next: std::mem::transmute::<*mut c_void, NextBit>(find(c"hwloc_bitmap_next")?),
            })
        }
    }

    fn load(&self, synthetic: Option<&str>) -> io::Result<Topology> {
        let refused = |what: &str| io::Error::other(format!("hwloc {what}"));
        let mut handle = ptr::null_mut();
        // SAFETY: it writes a handle.
        if unsafe { (self.init)(&raw mut handle) } != 0 {
            return Err(refused("cannot begin"));
        }
        let topology = Loaded {
            hwloc: self,
            handle,
        };
        if let Some(text) = synthetic {
            let text = CString::new(text)?;
            // SAFETY: a handle that was not loaded; a text that ends, which is copied.
            if unsafe { (self.set_synthetic)(handle, text.as_ptr()) } != 0 {
                return Err(refused("does not understand the description of a machine"));
            }
        }
        // SAFETY: a handle that was not loaded.
        if unsafe { (self.load)(handle) } != 0 {
            return Err(refused("finds no topology"));
        }
        Ok(Topology::new(
            Level::ALL.map(|level| (level, topology.objects(level))),
        ))
    }
}

/// A topology of hwloc, until it is dropped.
struct Loaded<'a> {
    hwloc: &'a Hwloc,
    handle: Handle,
}

impl Loaded<'_> {
    fn objects(&self, level: Level) -> Vec<Object> {
        let mut kind = 0;
        // SAFETY: a name that ends; a number is written; no attributes are wanted.
        let known = unsafe {
            (self.hwloc.parse_kind)(level.key().as_ptr(), &raw mut kind, ptr::null_mut(), 0)
        };
        if known != 0 {
            return Vec::new();
        }
        // SAFETY: the handle is loaded.
        let depth = unsafe { (self.hwloc.depth_of)(self.handle, kind) };
        if NO_DEPTH.contains(&depth) {
            return Vec::new();
        }
        // SAFETY: as above; the depth is one of it.
        let count = unsafe { (self.hwloc.count)(self.handle, depth) };
        let objects = (0..count).filter_map(|index| self.object(depth, index));
        objects
            .filter(|object| !object.threads.is_empty())
            .collect()
    }

    fn object(&self, depth: c_int, index: c_uint) -> Option<Object> {
        // SAFETY: the handle is loaded; it returns null or an object that lives as long as the handle, whose
        // beginning is the same in all of hwloc 2.
        let object = unsafe { (self.hwloc.object)(self.handle, depth, index).as_ref() }?;
        let mut threads = Vec::new();
        let mut last = -1;
        loop {
            // SAFETY: the set is part of the object; −1 begins, and is the answer at the end.
            last = unsafe { (self.hwloc.next)(object.threads, last) };
            match usize::try_from(last) {
                Ok(thread) => threads.push(thread),
                Err(_) => break,
            }
        }
        let number = object.number;
        Some(Object { number, threads })
    }
}

impl Drop for Loaded<'_> {
    fn drop(&mut self) {
        // SAFETY: the handle is ours, and nothing of it is left.
        unsafe { (self.hwloc.destroy)(self.handle) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(topology: &Topology) -> Vec<usize> {
        let count = |level| topology.objects(level).len();
        Level::ALL.map(count).to_vec()
    }

    /// A library that is not installed is an error that says what to install.
    fn or_missing(found: io::Result<Topology>) -> Option<Topology> {
        match found {
            Ok(topology) => Some(topology),
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::NotFound, "{error}");
                assert!(error.to_string().contains("libhwloc15"), "{error}");
                None
            }
        }
    }

    #[test]
    fn a_machine_that_is_described_has_its_objects() {
        let found = Topology::synthetic("pack:2 numa:1 l3:2 l2:2 core:1 pu:2");
        let Some(topology) = or_missing(found) else {
            return;
        };
        assert_eq!(numbers(&topology), [2, 2, 4, 8, 0, 8, 16]);
        assert_eq!(topology.objects(Level::L3Cache)[1].threads, [4, 5, 6, 7]);
        assert_eq!(topology.objects(Level::MemoryNode)[1].number, 1);
        assert_eq!(topology.object_of(Level::Core, 5), Some(2));
        let half = topology.within(&[1, 8, 9, 10]);
        assert_eq!(numbers(&half), [2, 2, 2, 3, 0, 3, 4]);
        assert_eq!(half.objects(Level::L3Cache)[1].threads, [8, 9, 10]);
        assert!(Topology::synthetic("pack:x").is_err());
    }

    #[test]
    fn this_machine_has_the_cores_that_we_may_use() {
        let Some(topology) = or_missing(Topology::of_this_machine()) else {
            return;
        };
        let allowed = crate::cores::allowed().expect("readable");
        let ours = topology.within(&allowed);
        let count = ours.objects(Level::HardwareThread).len();
        assert_eq!(count, allowed.len());
        assert!((1..=count).contains(&ours.objects(Level::Core).len()));
    }

    #[test]
    fn of_a_flat_one_only_the_cores_are_known() {
        let topology = Topology::flat(&[0, 2, 5]);
        assert_eq!(numbers(&topology), [0, 0, 0, 0, 0, 3, 3]);
        assert_eq!(topology.object_of(Level::Core, 5), Some(2));
        assert_eq!(topology.object_of(Level::Package, 5), None);
    }
}
