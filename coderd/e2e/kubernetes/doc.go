// Package kubernetes tests the provider of that name on a real cluster, with pods that run (`make k8s-e2e`).
package kubernetes
