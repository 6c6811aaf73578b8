//go:build tools

// Keeps the module requirements of kubectl in go.mod, so that `go build k8s.io/kubernetes/cmd/kubectl` works here.
package main

import _ "k8s.io/kubernetes/cmd/kubectl"
