// Package templates turns a configuration file into rows: providers, templates, their versions and presets.
//
// The way of a file:
//
//	source -> Parse  -> Document, or every problem with its line and column
//	       -> check  -> the same for what needs the world: unknown providers, specs that a provider refuses
//	       -> Apply  -> one transaction: lock, compare, write what differs, record it -> changes
//
// An apply is declarative. What the file names becomes what the file says: a setting left out has its default, and a
// preset left out of a template that is there is deleted. What the file does not name stays untouched: no template and
// no provider is ever deleted by an apply. An apply that changes nothing writes nothing. Nothing is ever half applied,
// and a dry run is the same transaction, rolled back.
//
// A version is the hash of provider and spec. A spec that was active before becomes active again as the version it
// was; a preset's pool key is a digest of that hash and the parameters (PoolKey), so its old prebuilds, if any are
// left, are current again too.
//
// Locks are taken in one order: organization, providers by name, templates by name. Applies of one organization run one
// after the other; claims and passes go on beside them, on the configuration that was committed last.
package templates
