//! The last word to a driver that gets no session.

use std::time::Duration;

use proto::control::{Control, Refusal};
use proto::limits::FRAME_MAX_UNAUTHENTICATED;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::link::{self, LinkError};

/// How long a driver may take to hear why it is refused, and to close its end.
const LINGER: Duration = Duration::from_secs(2);
/// Bytes of it that are read meanwhile: Hello, Open and what a source announces with it.
const LINGER_BYTES: usize = 3 * FRAME_MAX_UNAUTHENTICATED;

/// Says why, and closes once that was heard, or after [`LINGER`].
pub(super) async fn refuse(stream: impl AsyncRead + AsyncWrite + Unpin, why: Refusal) {
    tracing::info!(why = why.text, "session refused");
    // Who does not listen has had its chance.
    let _ = tokio::time::timeout(LINGER, say(stream, why)).await;
}

/// Closing at once would leave what the driver said meanwhile unread; the kernel answers that with a reset, and that may
/// overtake the refusal.
async fn say(mut stream: impl AsyncRead + AsyncWrite + Unpin, why: Refusal) -> Result<(), LinkError> {
    link::write(&mut stream, &Control::Refused(why)).await?;
    stream.shutdown().await.map_err(LinkError::Lost)?;
    let mut rest = stream.take(LINGER_BYTES as u64);
    tokio::io::copy(&mut rest, &mut tokio::io::sink()).await.map_err(LinkError::Lost)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::control::Code;
    use tokio::net::{TcpListener, TcpStream};

    /// A refused driver that goes on talking, and what it hears then.
    async fn refused(bytes: usize) -> Control {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut driver = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (agent, _) = listener.accept().await.unwrap();
        let why = Refusal { code: Code::Denied, text: "no such token".to_owned() };
        driver.write_all(&vec![7; bytes]).await.unwrap();
        let refusing = tokio::spawn(refuse(agent, why));
        // What comes after the refusal was said is what a reset would answer.
        tokio::time::sleep(Duration::from_millis(50)).await;
        let _ = driver.write_all(&vec![7; bytes]).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        let heard = link::read(&mut driver, FRAME_MAX_UNAUTHENTICATED).await.unwrap();
        drop(driver);
        tokio::time::timeout(LINGER / 2, refusing).await.expect("it ends when the driver has closed").unwrap();
        heard
    }

    #[tokio::test]
    async fn a_driver_that_still_talks_hears_why() {
        for bytes in [0, FRAME_MAX_UNAUTHENTICATED] {
            assert!(matches!(refused(bytes).await, Control::Refused(why) if why.code == Code::Denied));
        }
    }

    #[tokio::test]
    async fn one_that_talks_for_ever_is_cut_off() {
        let (mut driver, agent) = tokio::io::duplex(1 << 10);
        let why = Refusal { code: Code::Denied, text: "no".to_owned() };
        let refusing = tokio::spawn(refuse(agent, why));
        let mut said = 0;
        while said < 1 << 20 && driver.write_all(&[7; 512]).await.is_ok() {
            said += 512;
        }
        assert!(said < LINGER_BYTES + (2 << 10), "{said} bytes were read of one that is not let in");
        refusing.await.unwrap();
    }
}
