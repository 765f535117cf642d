"""Where stores live: disks, zip files, object stores, web servers; retries and secrets."""
