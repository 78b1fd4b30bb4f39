//! The output file of an export. It is written completely or not at all.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result, bail};
use tempfile::Builder;

use crate::cli::output;

/// Calls `write` with standard output, or with a temporary file that replaces the one at `path`
/// when all is written.
///
/// So nobody sees an incomplete file, and after an error the old file is still there. A symbolic
/// link is followed. A pipe or a device is written to directly.
pub(super) fn write(path: Option<&Path>, write: impl FnOnce(&mut (dyn Write + Send)) -> Result<()>) -> Result<()> {
    let Some(path) = path else {
        let mut out = output::stdout();
        write(&mut out)?;
        return Ok(out.flush()?);
    };
    let cannot = || format!("cannot write {}", path.display());
    let there = fs::metadata(path).ok();
    if path.is_dir() {
        bail!("cannot write {}: it is a folder: name a file in it", path.display());
    }
    if there.as_ref().is_some_and(|there| !there.is_file()) {
        let mut out = BufWriter::new(File::options().write(true).open(path).with_context(cannot)?);
        write(&mut out)?;
        return out.flush().with_context(cannot);
    }
    let path = if there.is_some() { fs::canonicalize(path).with_context(cannot)? } else { path.to_owned() };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !folder.is_dir() {
        bail!(
            "cannot write {}: there is no folder {}: create it, or name another file",
            path.display(),
            folder.display()
        );
    }
    // Temporary files have the mode 0600: only the owner may read captured data.
    let file = Builder::new().prefix(".mcptap-export-").tempfile_in(folder).with_context(cannot)?;
    if let Some(there) = there {
        file.as_file().set_permissions(there.permissions()).with_context(cannot)?;
    }
    let mut out = BufWriter::new(file);
    write(&mut out)?;
    let file = out.into_inner().map_err(|error| error.into_error()).with_context(cannot)?;
    file.persist(&path).with_context(cannot)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::*;

    #[test]
    fn a_file_is_written_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let names = || fs::read_dir(folder.path()).unwrap().count();
        let fails = |out: &mut (dyn Write + Send)| {
            out.write_all(&[b'x'; 100_000])?;
            bail!("no more")
        };
        assert!(write(Some(&path), fails).is_err());
        assert_eq!(names(), 0);
        write(Some(&path), |out| Ok(out.write_all(b"first")?)).unwrap();
        assert!(write(Some(&path), fails).is_err());
        assert_eq!((fs::read(&path).unwrap(), names()), (b"first".to_vec(), 1));
        write(Some(&path), |out| Ok(out.write_all(b"second")?)).unwrap();
        assert_eq!((fs::read(&path).unwrap(), names()), (b"second".to_vec(), 1));
    }

    #[test]
    fn links_rights_and_devices_stay() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("out"), folder.path().join("link"));
        write(Some(&path), |out| Ok(out.write_all(b"new")?)).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600, "only its owner reads it");
        fs::write(&path, "first").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        write(Some(&link), |out| Ok(out.write_all(b"second")?)).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"second");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        write(Some(Path::new("/dev/null")), |out| Ok(out.write_all(b"gone")?)).unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }
}
