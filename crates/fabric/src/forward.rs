//! Forwarding for wrappers: methods of [`Fabric`](crate::Fabric) and [`Bell`](crate::Bell) that a wrapper forwards to the
//! value that it wraps, by name.
//!
//! A wrapper either writes a method or names it here. It does not compile if a method without a default is forgotten, or if one is
//! named twice. Methods with a default (`writers`, `open_channel`, …) must be named where the wrapped value has its own.

/// Methods of [`Fabric`](crate::Fabric) that are forwarded to another fabric. For use within an `impl Fabric`.
///
/// ```
/// use weft_fabric::{Fabric, Head, Peer, Posted, Result, forward_fabric};
///
/// /// Sends every message to rank 0.
/// struct ToZero<F>(F);
///
/// impl<F: Fabric> Fabric for ToZero<F> {
///     forward_fabric!(self => self.0; me, peers, limits, bell, now, route, take_next, poll, grant, offer, revoke, get, put,
///         signal, signals, take_signals, forget, shares_memory, allocate_shared, release_shared, attach_shared,
///         is_asleep, wake, is_any_beside, is_flushed, traffic, say_goodbye);
///
///     fn try_send(&mut self, _: Peer, head: &Head, data: &[u8]) -> Result<Posted> {
///         self.0.try_send(Peer(0), head, data)
///     }
///
///     fn inject(&mut self, _: Peer, head: &Head, data: &[u8]) -> bool {
///         self.0.inject(Peer(0), head, data)
///     }
/// }
/// ```
#[macro_export]
macro_rules! forward_fabric {
    ($this:ident => $to:expr; me) => {
        fn me(&$this) -> $crate::Peer {
            $to.me()
        }
    };
    ($this:ident => $to:expr; peers) => {
        fn peers(&$this) -> u32 {
            $to.peers()
        }
    };
    ($this:ident => $to:expr; limits) => {
        fn limits(&$this) -> $crate::Limits {
            $to.limits()
        }
    };
    ($this:ident => $to:expr; bell) => {
        fn bell(&$this) -> ::std::sync::Arc<dyn $crate::Bell> {
            $to.bell()
        }
    };
    ($this:ident => $to:expr; now) => {
        fn now(&$this) -> ::std::time::Duration {
            $to.now()
        }
    };
    ($this:ident => $to:expr; route) => {
        fn route(&$this, peer: $crate::Peer) -> &'static str {
            $to.route(peer)
        }
    };
    ($this:ident => $to:expr; try_send) => {
        fn try_send(
            &mut $this,
            to: $crate::Peer,
            head: &$crate::Head,
            data: &[u8],
        ) -> $crate::Result<$crate::Posted> {
            $to.try_send(to, head, data)
        }
    };
    ($this:ident => $to:expr; try_send_part) => {
        fn try_send_part(
            &mut $this,
            to: $crate::Peer,
            head: &$crate::Head,
            source: &mut dyn $crate::Source,
            part: ::core::ops::Range<usize>,
        ) -> ::core::option::Option<$crate::Result<$crate::Posted>> {
            $to.try_send_part(to, head, source, part)
        }
    };
    ($this:ident => $to:expr; inject) => {
        fn inject(&mut $this, to: $crate::Peer, head: &$crate::Head, data: &[u8]) -> bool {
            $to.inject(to, head, data)
        }
    };
    ($this:ident => $to:expr; writers) => {
        fn writers(&$this) -> ::std::sync::Arc<[$crate::SlotWriter]> {
            $to.writers()
        }
    };
    ($this:ident => $to:expr; announce) => {
        fn announce(&mut $this, to: $crate::Peer) {
            $to.announce(to);
        }
    };
    ($this:ident => $to:expr; take_next) => {
        fn take_next(
            &mut $this,
            from: $crate::Peer,
            head: &$crate::Head,
            into: &$crate::Region,
        ) -> $crate::Next {
            $to.take_next(from, head, into)
        }
    };
    ($this:ident => $to:expr; poll) => {
        fn poll(&mut $this, sink: &mut dyn $crate::Sink, budget: usize) -> usize {
            $to.poll(sink, budget)
        }
    };
    ($this:ident => $to:expr; grant) => {
        fn grant(
            &mut $this,
            region: $crate::Region,
            to: Option<$crate::Peer>,
            rights: $crate::Rights,
            uses: $crate::Uses,
        ) -> $crate::Result<$crate::Token> {
            $to.grant(region, to, rights, uses)
        }
    };
    ($this:ident => $to:expr; offer) => {
        fn offer(&mut $this, to: $crate::Peer, token: $crate::Token) {
            $to.offer(to, token);
        }
    };
    ($this:ident => $to:expr; revoke) => {
        fn revoke(&mut $this, token: $crate::Token) -> bool {
            $to.revoke(token)
        }
    };
    ($this:ident => $to:expr; get) => {
        fn get(
            &mut $this,
            from: $crate::Peer,
            token: $crate::Token,
            offset: u64,
            into: $crate::Region,
            operation: $crate::Operation,
        ) -> $crate::Result<$crate::Posted> {
            $to.get(from, token, offset, into, operation)
        }
    };
    ($this:ident => $to:expr; put) => {
        fn put(
            &mut $this,
            to: $crate::Peer,
            token: $crate::Token,
            offset: u64,
            source: $crate::Region,
            operation: $crate::Operation,
        ) -> $crate::Result<$crate::Posted> {
            $to.put(to, token, offset, source, operation)
        }
    };
    ($this:ident => $to:expr; channels) => {
        fn channels(&$this) -> u32 {
            $to.channels()
        }
    };
    ($this:ident => $to:expr; open_channel) => {
        fn open_channel(
            &mut $this,
            number: u32,
        ) -> $crate::Result<::std::boxed::Box<dyn $crate::Fabric>> {
            $to.open_channel(number)
        }
    };
    ($this:ident => $to:expr; signal) => {
        fn signal(
            &mut $this,
            to: $crate::Peer,
            key: $crate::SyncKey,
        ) -> $crate::Result<$crate::Posted> {
            $to.signal(to, key)
        }
    };
    ($this:ident => $to:expr; signals) => {
        fn signals(&$this, from: $crate::Peer, key: $crate::SyncKey) -> u64 {
            $to.signals(from, key)
        }
    };
    ($this:ident => $to:expr; take_signals) => {
        fn take_signals(&mut $this, from: $crate::Peer, key: $crate::SyncKey, count: u64) -> bool {
            $to.take_signals(from, key, count)
        }
    };
    ($this:ident => $to:expr; forget) => {
        fn forget(&mut $this, key: $crate::SyncKey) {
            $to.forget(key);
        }
    };
    ($this:ident => $to:expr; shares_memory) => {
        fn shares_memory(&$this, peer: $crate::Peer) -> bool {
            $to.shares_memory(peer)
        }
    };
    ($this:ident => $to:expr; allocate_shared) => {
        fn allocate_shared(&mut $this, length: usize) -> $crate::Result<$crate::SharedBlock> {
            $to.allocate_shared(length)
        }
    };
    ($this:ident => $to:expr; release_shared) => {
        fn release_shared(&mut $this, key: $crate::SharedKey) -> bool {
            $to.release_shared(key)
        }
    };
    ($this:ident => $to:expr; attach_shared) => {
        fn attach_shared(
            &mut $this,
            peer: $crate::Peer,
            key: $crate::SharedKey,
            length: usize,
        ) -> $crate::Result<$crate::SharedMemory> {
            $to.attach_shared(peer, key, length)
        }
    };
    ($this:ident => $to:expr; is_asleep) => {
        fn is_asleep(&mut $this, peer: $crate::Peer) -> bool {
            $to.is_asleep(peer)
        }
    };
    ($this:ident => $to:expr; wake) => {
        fn wake(&mut $this, peer: $crate::Peer) {
            $to.wake(peer);
        }
    };
    ($this:ident => $to:expr; is_any_beside) => {
        fn is_any_beside(
            &mut $this,
            peers: &mut dyn Iterator<Item = $crate::Peer>,
        ) -> Option<bool> {
            $to.is_any_beside(peers)
        }
    };
    ($this:ident => $to:expr; is_flushed) => {
        fn is_flushed(&mut $this) -> bool {
            $to.is_flushed()
        }
    };
    ($this:ident => $to:expr; say_goodbye) => {
        fn say_goodbye(&mut $this) {
            $to.say_goodbye();
        }
    };
    ($this:ident => $to:expr; abandon_unreached) => {
        fn abandon_unreached(&mut $this) {
            $to.abandon_unreached();
        }
    };
    ($this:ident => $to:expr; announce_absence) => {
        fn announce_absence(&mut $this, to: $crate::Peer) {
            $to.announce_absence(to);
        }
    };
    ($this:ident => $to:expr; has_unreported_members) => {
        fn has_unreported_members(&mut $this) -> bool {
            $to.has_unreported_members()
        }
    };
    ($this:ident => $to:expr; incarnation) => {
        fn incarnation(&$this, peer: $crate::Peer) -> u32 {
            $to.incarnation(peer)
        }
    };
    ($this:ident => $to:expr; cause_of_loss) => {
        fn cause_of_loss(&$this, peer: $crate::Peer) -> Option<String> {
            $to.cause_of_loss(peer)
        }
    };
    ($this:ident => $to:expr; may_return) => {
        fn may_return(&$this, peer: $crate::Peer) -> bool {
            $to.may_return(peer)
        }
    };
    ($this:ident => $to:expr; traffic) => {
        fn traffic(&$this) -> $crate::Traffic {
            $to.traffic()
        }
    };
    ($this:ident => $to:expr; $unknown:ident) => {
        compile_error!(concat!("Fabric has no method ", stringify!($unknown)));
    };
    ($this:ident => $to:expr; $($method:ident),+ $(,)?) => {
        $($crate::forward_fabric!($this => $to; $method);)+
    };
}

/// Methods of [`Bell`](crate::Bell) that are forwarded to another bell. For use within an `impl Bell`, like
/// [`forward_fabric`] within an `impl Fabric`.
#[macro_export]
macro_rules! forward_bell {
    ($this:ident => $to:expr; prepare) => {
        fn prepare(&$this) -> $crate::Ticket {
            $to.prepare()
        }
    };
    ($this:ident => $to:expr; cancel) => {
        fn cancel(&$this, ticket: $crate::Ticket) {
            $to.cancel(ticket);
        }
    };
    ($this:ident => $to:expr; wait) => {
        fn wait(&$this, ticket: $crate::Ticket, limit: Option<::std::time::Duration>) {
            $to.wait(ticket, limit);
        }
    };
    ($this:ident => $to:expr; ring) => {
        fn ring(&$this) {
            $to.ring();
        }
    };
    ($this:ident => $to:expr; load) => {
        fn load(&$this) -> $crate::Load {
            $to.load()
        }
    };
    ($this:ident => $to:expr; yield_core) => {
        fn yield_core(&$this) -> bool {
            $to.yield_core()
        }
    };
    ($this:ident => $to:expr; shares_core) => {
        fn shares_core(&$this) -> ::core::option::Option<bool> {
            $to.shares_core()
        }
    };
    ($this:ident => $to:expr; change_core) => {
        fn change_core(&$this) -> bool {
            $to.change_core()
        }
    };
    ($this:ident => $to:expr; stands_apart) => {
        fn stands_apart(&$this) -> bool {
            $to.stands_apart()
        }
    };
    ($this:ident => $to:expr; polls_per_clock_read) => {
        fn polls_per_clock_read(&$this) -> u32 {
            $to.polls_per_clock_read()
        }
    };
    ($this:ident => $to:expr; absences) => {
        fn absences(&$this) -> $crate::Absences {
            $to.absences()
        }
    };
    ($this:ident => $to:expr; tell_absence) => {
        fn tell_absence(&$this, world: u32) {
            $to.tell_absence(world);
        }
    };
    ($this:ident => $to:expr; reaching) => {
        fn reaching(&$this) -> $crate::Reaching {
            $to.reaching()
        }
    };
    ($this:ident => $to:expr; when_reaching) => {
        fn when_reaching(
            &$this,
            call: ::std::boxed::Box<dyn ::core::ops::Fn() + ::core::marker::Send + ::core::marker::Sync>,
        ) {
            $to.when_reaching(call);
        }
    };
    ($this:ident => $to:expr; inquiry) => {
        fn inquiry(&$this) -> u32 {
            $to.inquiry()
        }
    };
    ($this:ident => $to:expr; $unknown:ident) => {
        compile_error!(concat!("Bell has no method ", stringify!($unknown)));
    };
    ($this:ident => $to:expr; $($method:ident),+ $(,)?) => {
        $($crate::forward_bell!($this => $to; $method);)+
    };
}
