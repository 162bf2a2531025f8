// Package rest is the REST client that packages github and gitea share. Gitea's API for runners, jobs and webhooks follows
// GitHub's, so go-github's types fit both. What differs is in Kind, and in those two packages.
//
//	connect.go   one entity's client: its credential, limits on requests, pages of listings
//	errors.go    answers as the errors of package forge, and what was heard of limits
//	runners.go   listings, and finding one
//	jobs.go      jobs of webhooks and of listings
//	hooks.go     webhooks: headers of deliveries, installing, showing, removing
package rest
