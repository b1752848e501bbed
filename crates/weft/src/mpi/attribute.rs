//! Attributes: values that a program, or a library that it uses, caches with a communicator or a window (MPI 5.0, section
//! 7.7).
//!
//! A [`Key`] has the type of its values, so a reader knows their type, and the keys of two libraries never collide.
//! Values are dropped when they are replaced, when they are removed, and when the object ends.

use std::any::Any;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Element;
use super::communicator::PointToPoint;
use super::window::Window;

/// Rule for a value when its communicator is duplicated.
type Copier<T> = Arc<dyn Fn(&Arc<T>) -> Option<Arc<T>> + Send + Sync>;

/// The name under which values of type `T` are cached (`MPI_Comm_create_keyval`). Clones of a key are the same key.
///
/// ```
/// use weft::mpi::{self, Key};
///
/// /// What a library wants to know again the next time: made once for each communicator.
/// struct Plan {
///     left: usize,
///     right: usize,
/// }
///
/// let key = Key::<Plan>::shared_with_duplicates();
/// mpi::test(3, |world| {
///     let plan_of = |comm: &mpi::Communicator| {
///         comm.attribute(&key).unwrap_or_else(|| {
///             let (rank, size) = (comm.rank(), comm.size());
///             comm.set_attribute(&key, Plan { left: (rank + size - 1) % size, right: (rank + 1) % size });
///             comm.attribute(&key).expect("it was just set")
///         })
///     };
///     let plan = plan_of(&world);
///     let (came, _) = world.send_receive(&world.rank(), plan.right, 0, plan.left, 0)?;
///     assert_eq!(came, [plan.left]);
///     let apart = world.duplicate()?;
///     assert!(std::sync::Arc::ptr_eq(&plan_of(&apart), &plan));
///     Ok(())
/// });
/// ```
pub struct Key<T> {
    /// Its address tells keys apart; it is never that of another one while a value is cached under it.
    copier: Arc<Keeping<T>>,
}

struct Keeping<T> {
    copier: Option<Copier<T>>,
    _values: PhantomData<fn(T) -> T>,
}

impl<T> Clone for Key<T> {
    fn clone(&self) -> Self {
        Self {
            copier: Arc::clone(&self.copier),
        }
    }
}

impl<T> std::fmt::Debug for Key<T> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Key<{}>", std::any::type_name::<T>())
    }
}

impl<T> Default for Key<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Key<T> {
    fn with(copier: Option<Copier<T>>) -> Self {
        Self {
            copier: Arc::new(Keeping {
                copier,
                _values: PhantomData,
            }),
        }
    }

    /// A key whose values stay with their communicator: duplicates have none (`MPI_COMM_NULL_COPY_FN`).
    #[must_use]
    pub fn new() -> Self {
        Self::with(None)
    }

    /// A key whose values duplicates share (`MPI_COMM_DUP_FN`).
    #[must_use]
    pub fn shared_with_duplicates() -> Self {
        Self::with(Some(Arc::new(|value| Some(Arc::clone(value)))))
    }

    /// A key whose values are copied for duplicates by `copy`; if that returns `None`, the duplicate has no value.
    ///
    /// ```
    /// use weft::mpi::{self, Key};
    ///
    /// let depth = Key::<u32>::copied_by(|depth| (*depth < 2).then(|| depth + 1));
    /// mpi::test(1, |world| {
    ///     world.set_attribute(&depth, 1);
    ///     let once = world.duplicate()?;
    ///     assert_eq!(once.attribute(&depth).as_deref(), Some(&2));
    ///     assert_eq!(once.duplicate()?.attribute(&depth), None);
    ///     Ok(())
    /// });
    /// ```
    #[must_use]
    pub fn copied_by(copy: impl Fn(&T) -> Option<T> + Send + Sync + 'static) -> Self {
        Self::with(Some(Arc::new(move |value| copy(value).map(Arc::new))))
    }
}

/// A value with its key, whatever its type.
trait Cached: Send + Sync {
    /// The key, by its address.
    fn key(&self) -> *const ();
    /// The value, an `Arc` of its type.
    fn value(&self) -> &(dyn Any + Send + Sync);
    /// That of a duplicate.
    fn copied(&self) -> Option<Box<dyn Cached>>;
}

struct Entry<T> {
    key: Key<T>,
    value: Arc<T>,
}

impl<T: Send + Sync + 'static> Cached for Entry<T> {
    fn key(&self) -> *const () {
        Arc::as_ptr(&self.key.copier).cast()
    }

    fn value(&self) -> &(dyn Any + Send + Sync) {
        &self.value
    }

    fn copied(&self) -> Option<Box<dyn Cached>> {
        let value = self.key.copier.copier.as_ref()?(&self.value)?;
        let key = self.key.clone();
        Some(Box::new(Entry { key, value }))
    }
}

/// The attributes of one object, in the order in which they were set.
#[derive(Default)]
pub(super) struct Attributes {
    entries: Mutex<Vec<Arc<dyn Cached>>>,
}

impl std::fmt::Debug for Attributes {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Attributes({})", self.entries().len())
    }
}

/// No code of the program runs while it is held: values are dropped and copied by callers.
impl Attributes {
    fn entries(&self) -> MutexGuard<'_, Vec<Arc<dyn Cached>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set<T: Send + Sync + 'static>(&self, key: &Key<T>, value: Arc<T>) -> Option<Arc<T>> {
        let entry: Arc<dyn Cached> = Arc::new(Entry {
            key: key.clone(),
            value,
        });
        let mut entries = self.entries();
        let known = entries.iter_mut().find(|other| other.key() == entry.key());
        let before = match known {
            Some(known) => Some(std::mem::replace(known, entry)),
            None => {
                entries.push(entry);
                None
            }
        };
        drop(entries);
        before.and_then(|before| value_of(&*before))
    }

    fn get<T: Send + Sync + 'static>(&self, key: &Key<T>) -> Option<Arc<T>> {
        let wanted = Arc::as_ptr(&key.copier).cast();
        let entries = self.entries();
        value_of(&**entries.iter().find(|entry| entry.key() == wanted)?)
    }

    fn remove<T: Send + Sync + 'static>(&self, key: &Key<T>) -> Option<Arc<T>> {
        let wanted = Arc::as_ptr(&key.copier).cast();
        let mut entries = self.entries();
        let place = entries.iter().position(|entry| entry.key() == wanted)?;
        let entry = entries.remove(place);
        drop(entries);
        value_of(&*entry)
    }

    /// Those of a duplicate.
    pub(super) fn copied(&self) -> Self {
        let all = self.entries().clone();
        let copies = all.iter().filter_map(|entry| entry.copied());
        Self {
            entries: Mutex::new(copies.map(Arc::from).collect()),
        }
    }

    /// Drops all, the last one first.
    pub(super) fn clear(&self) {
        let all = std::mem::take(&mut *self.entries());
        all.into_iter().rev().for_each(drop);
    }
}

fn value_of<T: Send + Sync + 'static>(entry: &dyn Cached) -> Option<Arc<T>> {
    entry.value().downcast_ref::<Arc<T>>().cloned()
}

macro_rules! attributes {
    ($([$($generic:tt)*] $type:ty;)*) => {$(
        impl $($generic)* $type {
            /// Caches a value under a key; returns the former value (`MPI_Comm_set_attr`, `MPI_Win_set_attr`).
            pub fn set_attribute<V: Send + Sync + 'static>(&self, key: &Key<V>, value: V) -> Option<Arc<V>> {
                self.attributes().set(key, Arc::new(value))
            }

            /// The value cached under a key (`MPI_Comm_get_attr`, `MPI_Win_get_attr`).
            #[must_use]
            pub fn attribute<V: Send + Sync + 'static>(&self, key: &Key<V>) -> Option<Arc<V>> {
                self.attributes().get(key)
            }

            /// Removes the value of a key, and returns it (`MPI_Comm_delete_attr`, `MPI_Win_delete_attr`).
            pub fn remove_attribute<V: Send + Sync + 'static>(&self, key: &Key<V>) -> Option<Arc<V>> {
                self.attributes().remove(key)
            }
        }
    )*};
}

attributes! {
    [] PointToPoint;
    [<T: Element>] Window<T>;
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::Key;
    use crate::mpi;

    /// Says its name when it is dropped.
    struct Said(&'static str, Arc<Mutex<Vec<&'static str>>>);

    impl Drop for Said {
        fn drop(&mut self) {
            self.1.lock().unwrap().push(self.0);
        }
    }

    #[test]
    fn values_are_dropped_when_nobody_can_ask_for_them_any_more() {
        let said = Arc::new(Mutex::new(Vec::new()));
        let heard = || std::mem::take(&mut *said.lock().unwrap());
        mpi::test(1, |world| {
            let (key, other) = (Key::new(), Key::new());
            let apart = world.duplicate()?;
            let again = apart.clone();
            apart.set_attribute(&key, Said("first", Arc::clone(&said)));
            drop(apart.set_attribute(&key, Said("second", Arc::clone(&said))));
            assert_eq!(heard(), ["first"]);
            apart.set_attribute(&other, Said("other", Arc::clone(&said)));
            // A key that is freed stays usable for what carries it.
            drop(other);
            drop(apart.remove_attribute(&key));
            assert_eq!(heard(), ["second"]);
            assert!(apart.attribute(&key).is_none());
            drop(apart);
            assert_eq!(heard(), [""; 0]);
            drop(again);
            assert_eq!(heard(), ["other"]);
            let window = world.window::<u8>(1)?;
            window.set_attribute(&key, Said("window", Arc::clone(&said)));
            window.free()?;
            assert_eq!(heard(), ["window"]);
            world.set_attribute(&key, Said("one", Arc::clone(&said)));
            world.set_attribute(&Key::new(), Said("two", Arc::clone(&said)));
            Ok(())
        });
        assert_eq!(heard(), ["two", "one"], "the last one first");
    }

    #[test]
    fn keys_of_one_type_are_apart_and_copies_are_their_own() {
        mpi::test(2, |world| {
            let (one, two) = (Key::<u32>::new(), Key::shared_with_duplicates());
            world.set_attribute(&one, 1);
            world.set_attribute(&two, 2);
            assert_eq!(*world.attribute(&one).unwrap(), 1);
            let apart = world.duplicate()?;
            assert_eq!(apart.attribute(&one), None);
            assert_eq!(*apart.attribute(&two).unwrap(), 2);
            apart.set_attribute(&two, 3);
            assert_eq!(*world.attribute(&two).unwrap(), 2);
            // Parts of a communicator are no duplicates of it.
            let part = world.split(0, 0)?;
            assert_eq!(part.attribute(&two), None);
            Ok(())
        });
    }
}
