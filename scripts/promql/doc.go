// Package promql checks deploy/ with Prometheus' own parser and engine: that every query of the alert rules and the
// dashboard parses and asks only for metrics and labels of docs/observability.md, and that each alert is raised by the
// samples that must raise it, and by no others. It is a module of its own since Prometheus brings a hundred others along;
// `make alerts` runs it.
package promql
