// Package deploy is how Prewarm is run by those who mean it: configuration of a load balancer, services, an image. It
// holds no code of its own; its tests run what is in the files, as far as that goes without images from elsewhere.
package deploy
