// Package upgrade tests that two releases run side by side, as docs/deployment.md promises: it builds the binary of the
// release before, with its web UI, fills a database with it, and runs this one beside it on that database. Columns and
// fields of the API stay, both pass and claim, each command line works with each server, and so does the old page in
// Chromium. Then the old one stops, and the new one finishes what it left.
package upgrade
