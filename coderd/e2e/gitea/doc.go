// Package gitea runs Prewarm with a real Gitea and its runner: webhooks that Gitea signs and sends, a workflow that is pushed,
// and the job of it on a prewarmed runner.
//
// `make gitea-e2e` builds both from their Go modules (scripts/gitea.sh), which takes minutes the first time, and names their
// folder in PREWARM_GITEA. Without it the tests of this package are left out, and say so.
//
// testdata has what that Gitea sends and answers, as the tests recorded it (-update), with names and addresses made neutral:
// what package coderd/demand/gitea must read.
package gitea
