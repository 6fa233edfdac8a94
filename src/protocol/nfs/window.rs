//! A number of like futures, a few of them at a time, on one core: the look-ups of READDIRPLUS (RFC 1813 s3.3.17).

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

/// Runs `make(0)` to `make(count - 1)`, at most `width` at a time, and gives each result to `done` with its number, in any order.
///
/// A future's memory is used again for the next: `width` allocations at most.
pub(super) async fn in_window<F: Future>(
    count: usize,
    width: usize,
    make: impl Fn(usize) -> F,
    mut done: impl FnMut(usize, F::Output),
) {
    let mut next = width.min(count);
    let mut running: Vec<(usize, Pin<Box<F>>)> = (0..next).map(|n| (n, Box::pin(make(n)))).collect();
    poll_fn(|context| {
        let mut place = 0;
        while let Some((number, future)) = running.get_mut(place) {
            match future.as_mut().poll(context) {
                Poll::Pending => place += 1,
                Poll::Ready(output) => {
                    done(*number, output);
                    if next < count {
                        *number = next;
                        future.set(make(next));
                        next += 1;
                    } else {
                        drop(running.swap_remove(place));
                    }
                }
            }
        }
        if running.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::pin::pin;
    use std::task::{Context, Waker};

    #[test]
    fn all_are_run_and_not_too_many_at_once() {
        for (count, width) in [(0, 4), (1, 4), (3, 4), (4, 4), (100, 4), (100, 1)] {
            let (now, most) = (Cell::new(0), Cell::new(0));
            let mut seen = vec![0; count];
            let step = |n: usize| {
                let (now, most) = (&now, &most);
                async move {
                    now.set(now.get() + 1);
                    most.set(most.get().max(now.get()));
                    // Some take several polls, so that they end out of order.
                    let mut polls = n % 3;
                    poll_fn(|_| match polls {
                        0 => Poll::Ready(()),
                        _ => {
                            polls -= 1;
                            Poll::Pending
                        }
                    })
                    .await;
                    now.set(now.get() - 1);
                    n * 2
                }
            };
            {
                let mut all = pin!(in_window(count, width, step, |n, output| {
                    assert_eq!(output, 2 * n);
                    seen[n] += 1;
                }));
                let mut context = Context::from_waker(Waker::noop());
                let mut polls = 0;
                while all.as_mut().poll(&mut context).is_pending() {
                    polls += 1;
                    assert!(polls < 10 * count + 10, "no progress");
                }
            }
            assert!(seen.iter().all(|times| *times == 1), "{count} {width}");
            assert!(most.get() <= width);
        }
    }
}
