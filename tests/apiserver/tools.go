//go:build tools

// Keeps the module requirements of kubectl and of the foreign suite in go.mod, so that
// `go build k8s.io/kubernetes/cmd/kubectl` and `go test -c sigs.k8s.io/controller-runtime/pkg/client` work here.
package main

import (
	_ "github.com/onsi/ginkgo/v2"
	_ "github.com/onsi/gomega"
	_ "k8s.io/kubernetes/cmd/kubectl"
	_ "sigs.k8s.io/controller-runtime/pkg/client"
)
