// Package failover has the tests that lose the primary of a real pair of PostgreSQL servers under claims, and go on with the
// standby that took its place.
package failover
