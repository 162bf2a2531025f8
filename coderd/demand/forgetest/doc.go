// Package forgetest is a forge over real HTTP, to test against: the parts of the REST APIs of GitHub and Gitea that Prewarm
// uses, webhooks with real signatures, and runners.
//
// It is as forges are where that matters. A webhook is sent once and never again by itself; GitHub's keep a log that can be
// asked for. A job goes to any idle runner of its entity that has its labels, whomever it was meant for, at any moment, also
// between two calls. A runner with a job can't be removed from GitHub, and can from Gitea. An ephemeral runner is gone after
// its one job.
//
// Runners speak a protocol of their own with it: one request is held for as long as the runner lives. It answers with the
// job, and again when that is over. So the forge knows of a runner that was killed at its job: the connection ends (Judge).
//
// Faults are by chance, from a seed.
package forgetest
