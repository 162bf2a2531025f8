// Package k8stest starts a real Kubernetes cluster for tests, of parts that scripts/k8s.sh has built: etcd, the API server, the
// controller manager, the scheduler, and a kubelet with containerd that runs real containers. Everything listens on loopback,
// writes into one folder, and ends with the test's process, however that ends.
//
// The kubelet and containerd have namespaces of processes and mounts of their own, so that nothing of theirs outlives them.
// What they share with the machine is put back: settings of the kernel that a kubelet changes, groups of processes, and the
// bridge of the pods' network. There is no DNS and no proxy for services in it, and no registry: images are imported.
package k8stest
