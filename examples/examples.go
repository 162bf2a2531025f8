// Package examples holds configuration files that work as they are. CI applies each of them.
package examples

import _ "embed"

// Quickstart is what `prewarm server --quickstart` applies where there is no template yet.
//
//go:embed quickstart.yaml
var Quickstart string
