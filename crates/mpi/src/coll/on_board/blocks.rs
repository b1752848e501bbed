//! Collectives on a board that move blocks from rank to rank unchanged.

use super::super::{Blocks, Members};
use super::{all_arrive, await_all, slices};
use crate::buffer::Buffer;
use crate::engine::boards::{Audience, Awaited, Epochs};
use crate::error::Result;

#[inline]
pub(super) fn bcast(
    epochs: &mut Epochs<'_, '_>,
    rank: usize,
    data: &Buffer,
    root: usize,
) -> Result<()> {
    for (start, length) in slices(data.bytes(), epochs.capacity_ahead()) {
        if rank == root {
            epochs.begin(length)?;
            epochs.write((length, 0), data, (start, length))?;
            epochs.arrive(Audience::Mine);
        } else {
            hear(epochs, root)?;
            epochs.take(root, (length, 0), data, (start, length))?;
        }
    }
    Ok(())
}

/// Shows nothing, and waits for what the root shows.
#[inline]
pub(super) fn hear(epochs: &mut Epochs<'_, '_>, root: usize) -> Result<()> {
    epochs.begin(0)?;
    epochs.arrive(Audience::Nobody);
    epochs.until(Awaited::One(root))?;
    epochs.check(root)
}

/// `receive` is there at the root.
pub(super) fn gather(
    epochs: &mut Epochs<'_, '_>,
    members: &Members,
    send: Option<&Buffer>,
    receive: Option<&Blocks>,
    root: usize,
) -> Result<()> {
    let Some(receive) = receive else {
        let Some(send) = send else { return Ok(()) };
        for (start, length) in slices(send.bytes(), epochs.capacity_ahead()) {
            epochs.begin(length)?;
            epochs.write((length, 0), send, (start, length))?;
            epochs.arrive(Audience::Root(root));
        }
        return Ok(());
    };
    for (start, length) in slices(receive.bytes(root), epochs.capacity_ahead()) {
        epochs.begin(0)?;
        epochs.arrive(Audience::Nobody);
        await_all(epochs, members.size)?;
        for rank in (0..members.size).filter(|rank| *rank != root) {
            let into = receive.block(rank);
            epochs.take(rank, (length, 0), &into, (start, length))?;
        }
    }
    if let Some(send) = send {
        send.copy_to(&receive.block(root));
    }
    Ok(())
}

/// `send` is there at the root.
pub(super) fn scatter(
    epochs: &mut Epochs<'_, '_>,
    members: &Members,
    send: Option<&Blocks>,
    receive: Option<&Buffer>,
    root: usize,
) -> Result<()> {
    let block = match (send, receive) {
        (Some(send), _) => send.bytes(root),
        (None, receive) => receive.map_or(0, Buffer::bytes),
    };
    for (start, length) in slices(block, share(epochs, members.size)) {
        let all = length * members.size;
        let Some(send) = send else {
            hear(epochs, root)?;
            if let Some(receive) = receive {
                let place = (all, members.rank * length);
                epochs.take(root, place, receive, (start, length))?;
            }
            continue;
        };
        epochs.begin(all)?;
        for rank in (0..members.size).filter(|rank| *rank != root) {
            epochs.write((all, rank * length), &send.block(rank), (start, length))?;
        }
        epochs.arrive(Audience::Mine);
    }
    match (send, receive) {
        (Some(send), Some(receive)) => {
            send.block(root).copy_to(receive);
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Most bytes for each rank in what one shows.
#[inline]
fn share(epochs: &Epochs<'_, '_>, size: usize) -> usize {
    epochs.capacity() / size / 8 * 8
}

pub(super) fn allgather(
    epochs: &mut Epochs<'_, '_>,
    members: &Members,
    send: Option<&Buffer>,
    receive: &Blocks,
) -> Result<()> {
    let in_place;
    let own = match send {
        Some(send) => send,
        None => {
            in_place = receive.block(members.rank);
            &in_place
        }
    };
    let most = if receive.is_even() {
        own.bytes()
    } else {
        (0..members.size)
            .map(|rank| receive.bytes(rank))
            .max()
            .unwrap_or(0)
    };
    for (start, length) in slices(most, epochs.capacity()) {
        let part = |bytes: usize| length.min(bytes.saturating_sub(start));
        let length = part(own.bytes());
        epochs.begin(length)?;
        epochs.write((length, 0), own, (start.min(own.bytes()), length))?;
        all_arrive(epochs, members.size)?;
        for rank in (0..members.size).filter(|rank| *rank != members.rank) {
            let into = receive.block(rank);
            let length = part(into.bytes());
            if length > 0 {
                epochs.take(rank, (length, 0), &into, (start, length))?;
            }
        }
    }
    if let Some(send) = send {
        send.copy_to(&receive.block(members.rank));
    }
    Ok(())
}

pub(super) fn alltoall(
    epochs: &mut Epochs<'_, '_>,
    members: &Members,
    send: Option<&Blocks>,
    receive: &Blocks,
) -> Result<()> {
    let Members { rank, size, .. } = *members;
    let out = send.unwrap_or(receive);
    for (start, length) in slices(receive.bytes(rank), share(epochs, size)) {
        let all = length * size;
        epochs.begin(all)?;
        for other in (0..size).filter(|other| *other != rank) {
            epochs.write((all, other * length), &out.block(other), (start, length))?;
        }
        all_arrive(epochs, size)?;
        for other in (0..size).filter(|other| *other != rank) {
            let into = receive.block(other);
            epochs.take(other, (all, rank * length), &into, (start, length))?;
        }
    }
    if let Some(send) = send {
        send.block(rank).copy_to(&receive.block(rank));
    }
    Ok(())
}
