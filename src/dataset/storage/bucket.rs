//! Object storage: S3 and what speaks like it, Google Cloud Storage, Azure.
//!
//! The library is asynchronous. Each call here runs it to its end on the calling thread, so nothing
//! else of the program is (decision 44).

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use futures_util::StreamExt;
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use object_store::{Error, ObjectStore, ObjectStoreExt, RetryConfig, WriteMultipart};
use tempfile::NamedTempFile;
use tokio::runtime::{Builder, Runtime};

use super::Storage;
use crate::http::trust;

/// The schemes of URLs.
pub const SCHEMES: [&str; 6] = ["s3", "s3a", "gs", "az", "abfs", "abfss"];

/// How long a request is repeated. `ship` repeats whole rounds for longer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Size in bytes from which a file is sent in parts of this size. S3 allows 10,000 parts.
const PART: usize = 8 << 20;

/// A bucket, or the objects of one below a prefix.
pub struct Bucket {
    name: String,
    store: Arc<dyn ObjectStore>,
    runtime: Mutex<Runtime>,
}

impl Bucket {
    /// Opens a bucket by its URL. Nothing is sent yet.
    pub fn open(url: &str) -> Result<Bucket> {
        trust::install_provider();
        let retry = RetryConfig { max_retries: 3, retry_timeout: PATIENCE, ..RetryConfig::default() };
        let (scheme, rest) = url.split_once("://").unwrap_or_default();
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.is_empty() {
            bail!("{url} names no bucket: give {scheme}://BUCKET/PREFIX");
        }
        let wrong = || format!("cannot use {url}");
        let is_plain = |name: &str| std::env::var(name).is_ok_and(|url| url.starts_with("http://"));
        let store: Arc<dyn ObjectStore> = match scheme {
            "s3" | "s3a" => {
                let mut builder = AmazonS3Builder::from_env().with_bucket_name(bucket).with_retry(retry);
                // Who names an endpoint without TLS means it.
                if is_plain("AWS_ENDPOINT_URL_S3") || is_plain("AWS_ENDPOINT_URL") || is_plain("AWS_ENDPOINT") {
                    builder = builder.with_allow_http(true);
                }
                Arc::new(builder.build().map_err(|error| plain(&error)).with_context(wrong)?)
            }
            "gs" => {
                let builder = GoogleCloudStorageBuilder::from_env().with_bucket_name(bucket).with_retry(retry);
                Arc::new(builder.build().map_err(|error| plain(&error)).with_context(wrong)?)
            }
            _ => {
                let builder = MicrosoftAzureBuilder::from_env().with_url(url).with_retry(retry);
                Arc::new(builder.build().map_err(|error| plain(&error)).with_context(wrong)?)
            }
        };
        let runtime =
            Builder::new_current_thread().enable_all().build().context("cannot start the client of storage")?;
        let store = Arc::new(PrefixStore::new(store, prefix));
        Ok(Bucket { name: url.trim_end_matches('/').to_owned(), store, runtime: Mutex::new(runtime) })
    }

    /// Runs a request to its end.
    fn run<T>(&self, what: &str, name: &str, request: impl Future<Output = object_store::Result<T>>) -> Result<T> {
        let runtime = self.runtime.lock().unwrap_or_else(PoisonError::into_inner);
        let result = runtime.block_on(request);
        result.map_err(|error| plain(&error)).with_context(|| format!("cannot {what} {}/{name}", self.name))
    }
}

/// An error of the library in one line: its reason, without the request.
fn plain(error: &Error) -> anyhow::Error {
    match error {
        Error::PermissionDenied { .. } => anyhow!("the credentials give no permission"),
        Error::Unauthenticated { .. } => anyhow!("the credentials are missing or wrong"),
        Error::NotFound { .. } => anyhow!("there is no such bucket"),
        other => {
            // The last reason says most: that a connection was refused, or a name is unknown.
            let mut reason: &dyn std::error::Error = other;
            while let Some(source) = reason.source() {
                reason = source;
            }
            let text = reason.to_string();
            let line = text.lines().next().unwrap_or_default();
            match line {
                _ if line.contains("404 Not Found") => anyhow!("there is no such bucket"),
                _ if line.contains("403 Forbidden") => anyhow!("the credentials give no permission"),
                _ => anyhow!("{}", line.to_owned()),
            }
        }
    }
}

impl Storage for Bucket {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn list(&self, folder: &str, start: &str) -> Result<Vec<(String, u64)>> {
        let prefix = Path::from(folder);
        // The service begins with the first name after this one, and the answer is read no further
        // than the last one: those of one host are few among many.
        let start = format!("{folder}{start}");
        let before: String = start.chars().take(start.chars().count().saturating_sub(1)).collect();
        let mut objects = self.store.list_with_offset(Some(&prefix), &Path::from(before));
        let mut found = self.run("list", folder, async {
            let mut found = Vec::new();
            while let Some(object) = objects.next().await {
                let object = object?;
                let name = object.location.to_string();
                if !name.starts_with(&start) {
                    if name > start {
                        break;
                    }
                    continue;
                }
                found.push((name, object.size));
            }
            Ok(found)
        })?;
        found.sort();
        Ok(found)
    }

    fn open(&self, name: &str) -> Result<Option<File>> {
        let mut file = tempfile::tempfile().context("cannot create a temporary file")?;
        let path = Path::from(name);
        let is_there = self.run("read", name, async {
            let mut content = match self.store.get(&path).await {
                Err(Error::NotFound { .. }) => return Ok(Ok(false)),
                content => content?.into_stream(),
            };
            while let Some(bytes) = content.next().await {
                if let Err(error) = file.write_all(&bytes?) {
                    return Ok(Err(error));
                }
            }
            Ok(Ok(true))
        })?;
        let is_there = is_there.and_then(|is_there| file.rewind().map(|()| is_there));
        Ok(is_there.context("cannot write a temporary file")?.then_some(file))
    }

    fn create(&self) -> Result<NamedTempFile> {
        NamedTempFile::with_prefix("mcptap-").context("cannot create a temporary file")
    }

    fn publish(&self, name: &str, mut file: NamedTempFile) -> Result<()> {
        file.rewind().context("cannot read a temporary file")?;
        let path = Path::from(name);
        let length = file.as_file().metadata().context("cannot read a temporary file")?.len();
        if length <= PART as u64 {
            let mut content = Vec::new();
            file.read_to_end(&mut content).context("cannot read a temporary file")?;
            return self.run("write", name, self.store.put(&path, content.into())).map(drop);
        }
        // The object is visible when all of its parts are there.
        let sent = self.run("write", name, async {
            let mut parts = WriteMultipart::new_with_chunk_size(self.store.put_multipart(&path).await?, PART);
            let mut part = vec![0; PART];
            loop {
                match file.read(&mut part) {
                    Ok(0) => break,
                    Ok(read) => {
                        parts.wait_for_capacity(1).await?;
                        parts.write(part.get(..read).unwrap_or_default());
                    }
                    Err(error) => {
                        parts.abort().await?;
                        return Ok(Err(error));
                    }
                }
            }
            parts.finish().await?;
            Ok(Ok(()))
        })?;
        sent.context("cannot read a temporary file")
    }

    fn remove(&self, name: &str) -> Result<()> {
        let path = Path::from(name);
        self.run("remove", name, async {
            match self.store.delete(&path).await {
                Err(Error::NotFound { .. }) => Ok(()),
                result => result,
            }
        })
    }
}
