//! Representation: how the numbers of a program are written in a file (MPI 5.0, section 14.5).
//!
//! `native` and `internal` are the bytes of memory. In `external32`, and in those that programs register, basic elements
//! have sizes of their own; a filetype is then built anew with these, and data are converted on their way.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weft_fabric::Region;

use crate::buffer::{TypedBuffer, region_of};
use crate::datatype::{self, Basic, Datatype, Recipe};
use crate::error::{Error, ErrorClass, Result};
use crate::memory;

/// Longest name, without the terminating zero (`MPI_MAX_DATAREP_STRING` counts it).
pub const NAME_MAX: usize = 127;
/// Constructors within each other that a datatype may have to be built anew. Stacks of fibers are small.
const DEEPEST: u32 = 200;

/// The conversion that a program registers (`MPI_Register_datarep`). Its functions may be called by several threads.
pub trait Conversion: Debug + Send + Sync {
    /// Bytes of a predefined datatype in the file.
    ///
    /// # Errors
    /// The error of the program's function.
    fn file_extent(&self, datatype: &Arc<Datatype>) -> Result<usize>;

    /// From the bytes of the file to elements; false if there is nothing to convert.
    ///
    /// # Errors
    /// The error of the program's function.
    fn read(&self, file: Region, into: &TypedBuffer) -> Result<bool>;

    /// From elements to the bytes of the file; false if there is nothing to convert.
    ///
    /// # Errors
    /// The error of the program's function.
    fn write(&self, from: &TypedBuffer, file: Region) -> Result<bool>;
}

/// A data representation.
#[derive(Clone, Debug)]
pub enum Representation {
    /// Bytes as in memory.
    Native,
    /// The same here, where all machines of a job are alike.
    Internal,
    /// Big-endian, with sizes of its own.
    External32,
    /// One that the program has registered, with its name.
    Registered(Arc<str>, Arc<dyn Conversion>),
}

/// Representations that programs have registered, by name.
#[derive(Debug, Default)]
pub struct Registry {
    registered: Mutex<Option<HashMap<String, Arc<dyn Conversion>>>>,
}

impl Registry {
    /// An empty one.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            registered: Mutex::new(None),
        }
    }

    fn open(&self) -> MutexGuard<'_, Option<HashMap<String, Arc<dyn Conversion>>>> {
        let registered = self.registered.lock();
        registered.unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds one.
    ///
    /// # Errors
    /// `DupDatarep` if the name is taken, `Arg` if it is empty or too long.
    pub fn register(&self, name: &str, conversion: Arc<dyn Conversion>) -> Result<()> {
        if name.is_empty() || name.len() > NAME_MAX {
            return Err(Error::new(
                ErrorClass::Arg,
                format!(
                    "the name of a data representation has {} bytes; give 1 to {NAME_MAX}",
                    name.len()
                ),
            ));
        }
        let mut registered = self.open();
        let registered = registered.get_or_insert_default();
        let taken = matches!(name, "native" | "internal" | "external32");
        if taken || registered.contains_key(name) {
            return Err(Error::new(
                ErrorClass::DupDatarep,
                format!("there is a data representation \"{name}\" already; choose another name"),
            ));
        }
        registered.insert(name.to_owned(), conversion);
        Ok(())
    }

    /// The representation of a name.
    ///
    /// # Errors
    /// `UnsupportedDatarep` if there is none.
    pub fn find(&self, name: &str) -> Result<Representation> {
        Ok(match name {
            "native" => Representation::Native,
            "internal" => Representation::Internal,
            "external32" => Representation::External32,
            _ => {
                let registered = self.open();
                let found = registered.as_ref().and_then(|all| all.get(name));
                let conversion = found.ok_or_else(|| {
                    Error::new(
                        ErrorClass::UnsupportedDatarep,
                        format!(
                            "there is no data representation \"{name}\"; use native, internal, external32, or register it with MPI_Register_datarep"
                        ),
                    )
                })?;
                Representation::Registered(name.into(), Arc::clone(conversion))
            }
        })
    }
}

impl Representation {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Native => "native",
            Self::Internal => "internal",
            Self::External32 => "external32",
            Self::Registered(name, _) => name,
        }
    }

    /// Whether the file has the bytes of memory.
    #[must_use]
    pub fn is_native(&self) -> bool {
        matches!(self, Self::Native | Self::Internal)
    }

    /// The datatype as its elements lie in the file.
    ///
    /// # Errors
    /// `Type` if it is nested too deep; what the program's function failed with.
    pub fn in_file(&self, datatype: &Arc<Datatype>) -> Result<Arc<Datatype>> {
        if self.is_native() {
            return Ok(Arc::clone(datatype));
        }
        self.rebuilt(datatype, 0)
    }

    fn rebuilt(&self, datatype: &Arc<Datatype>, depth: u32) -> Result<Arc<Datatype>> {
        if depth > DEEPEST {
            return Err(Error::new(
                ErrorClass::Type,
                format!(
                    "a datatype of more than {DEEPEST} constructors within each other; use fewer with the representation {}",
                    self.name()
                ),
            ));
        }
        let again = |of: &Arc<Datatype>| self.rebuilt(of, depth + 1);
        let mut recipe = datatype.recipe().clone();
        match &mut recipe {
            Recipe::Named(_) | Recipe::Parameterised { .. } => {
                let bytes = match self {
                    Self::Registered(_, conversion) => conversion.file_extent(datatype)?,
                    _ => datatype.external_size(1)?,
                };
                recipe = Recipe::Contiguous {
                    count: bytes as i64,
                    of: Arc::clone(Basic::Byte.datatype()),
                };
            }
            Recipe::Struct { of, .. } => {
                *of = of.iter().map(again).collect::<Result<_>>()?;
            }
            Recipe::Dup { of, .. }
            | Recipe::Contiguous { of, .. }
            | Recipe::Vector { of, .. }
            | Recipe::Hvector { of, .. }
            | Recipe::Indexed { of, .. }
            | Recipe::Hindexed { of, .. }
            | Recipe::IndexedBlock { of, .. }
            | Recipe::HindexedBlock { of, .. }
            | Recipe::Subarray { of, .. }
            | Recipe::Darray { of, .. }
            | Recipe::Resized { of, .. } => *of = again(of)?,
        }
        Datatype::build(recipe, datatype.has_large_counts())
    }

    /// Bytes of elements in the file.
    ///
    /// # Errors
    /// As for [`Self::in_file`].
    pub(super) fn file_bytes(&self, elements: &TypedBuffer) -> Result<u64> {
        match self {
            Self::Native | Self::Internal => Ok(elements.bytes() as u64),
            Self::External32 => {
                let bytes = elements.datatype().external_size(elements.count())?;
                Ok(bytes as u64)
            }
            Self::Registered(..) => {
                let each = self.in_file(elements.datatype())?;
                each.bytes(elements.count()).map(|bytes| bytes as u64)
            }
        }
    }

    /// Elements as the file has them; `None` if that is as they are.
    ///
    /// # Errors
    /// `Conversion` for a value that the representation cannot hold, or when the program's function fails.
    pub(super) fn encode(&self, elements: &TypedBuffer) -> Result<Option<Box<[u8]>>> {
        if self.is_native() {
            return Ok(None);
        }
        let mut file = memory::zeroed(self.file_bytes(elements)? as usize)?;
        match self {
            Self::Registered(_, conversion) => {
                if !conversion.write(elements, region_of(&mut file))? {
                    return Ok(None);
                }
            }
            _ => {
                datatype::encode_external(elements, region_of(&mut file))
                    .map_err(|error| Error::new(ErrorClass::Conversion, error.text().to_owned()))?;
            }
        }
        Ok(Some(file))
    }

    /// The first bytes of the file's form of elements to where these lie; answers how many bytes of memory that is.
    ///
    /// # Errors
    /// `Conversion` when the program's function fails.
    pub(super) fn decode(&self, file: &mut [u8], elements: &TypedBuffer) -> Result<u64> {
        let Self::Registered(_, conversion) = self else {
            return Ok(datatype::decode_external(file, elements) as u64);
        };
        let each = self.in_file(elements.datatype())?.size().max(1);
        let whole = elements.first(file.len() / each);
        if !conversion.read(region_of(file), &whole)? {
            whole.unpack_part(0, file);
        }
        Ok(whole.bytes() as u64)
    }
}
