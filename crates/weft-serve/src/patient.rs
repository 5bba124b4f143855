//! A stream that ends if the other side stops reading for too long.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// A stream whose writes fail if the other side takes no byte for a given time.
pub struct Patient<S> {
    stream: S,
    patience: Duration,
    deadline: Pin<Box<Sleep>>,
    waits: bool,
}

impl<S> Patient<S> {
    /// Wraps a stream. A write then fails if the other side takes no byte for the time `patience`.
    pub fn new(stream: S, patience: Duration) -> Patient<S> {
        Patient { stream, patience, deadline: Box::pin(sleep(patience)), waits: false }
    }

    /// Passes on the result of a write, or fails with `TimedOut` if writes have been pending for the time `patience`.
    fn bounded<T>(&mut self, written: Poll<io::Result<T>>, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.waits = false;
            return written;
        }
        if !self.waits {
            self.waits = true;
            self.deadline.as_mut().reset(Instant::now() + self.patience);
        }
        self.deadline.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.bounded(written, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.bounded(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.bounded(flushed, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(context);
        self.bounded(shut, context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_stops_is_left_and_a_slow_one_is_not() {
        let (near, mut far) = duplex(8);
        let mut near = Patient::new(near, Duration::from_secs(30));
        let begin = Instant::now();
        let slow = tokio::spawn(async move {
            let mut buffer = [0; 8];
            for _ in 0..4 {
                tokio::time::sleep(Duration::from_secs(20)).await;
                far.read_exact(&mut buffer).await.unwrap();
            }
            far
        });
        near.write_all(&[0; 40]).await.unwrap();
        assert!(begin.elapsed() >= Duration::from_secs(80));
        let _far = slow.await.unwrap();
        let begin = Instant::now();
        let why = near.write_all(&[0; 8]).await.unwrap_err();
        assert_eq!((why.kind(), begin.elapsed().as_secs()), (io::ErrorKind::TimedOut, 30));
    }
}
