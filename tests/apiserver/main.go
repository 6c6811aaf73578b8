// Command apiserver runs etcd and kube-apiserver in one process, on loopback ports, in a temporary folder: the real
// server that the behaviour tests compare the in-memory one with. See README.md.
package main

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

// ready is the one line on standard output: everything that a client needs.
type ready struct {
	Port int `json:"port"`
	// Token belongs to a member of system:masters.
	Token string `json:"token"`
	// UserToken belongs to the user "nobody", whom RBAC gives no rights.
	UserToken string `json:"userToken"`
	// CA is the PEM bundle that signs the serving certificate.
	CA string `json:"ca"`
	// Etcd is the client URL of the store, for compaction.
	Etcd string `json:"etcd"`
}

type options struct {
	kubeconfig    string
	authorization string
	featureGates  string
	verbose       bool
}

func main() {
	var o options
	flag.StringVar(&o.kubeconfig, "kubeconfig", "", "write a kubeconfig to this file when the server is ready, and remove it at the end")
	flag.StringVar(&o.authorization, "authorization", "AlwaysAllow", "authorization mode: AlwaysAllow or RBAC")
	flag.StringVar(&o.featureGates, "feature-gates", "", "feature gates of kube-apiserver, as NAME=BOOL,...")
	flag.BoolVar(&o.verbose, "v", false, "let kube-apiserver and etcd log to standard error")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "apiserver: unexpected argument %q\n", flag.Arg(0))
		os.Exit(2)
	}
	if o.authorization != "AlwaysAllow" && o.authorization != "RBAC" {
		fmt.Fprintf(os.Stderr, "apiserver: --authorization is AlwaysAllow or RBAC, not %q\n", o.authorization)
		os.Exit(2)
	}
	if err := run(o); err != nil {
		fmt.Fprintf(os.Stderr, "apiserver: %v\n", err)
		os.Exit(1)
	}
}

// run serves until standard input closes or a signal comes. It ends by leaving the process: neither etcd nor
// kube-apiserver has anything that is worth an orderly end.
func run(o options) error {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)

	dir, err := os.MkdirTemp("", "watershed-apiserver-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	// The parent may take our output away at any time; that is no reason to die before the folder is removed.
	signal.Ignore(syscall.SIGPIPE)

	store, err := startEtcd(dir, o.verbose)
	if err != nil {
		return fmt.Errorf("etcd: %w", err)
	}
	// Registered after the folder's removal, so done before it: nothing writes into a folder that is going away.
	defer store.Server.HardStop()
	r := ready{Token: randomToken(), UserToken: randomToken(), Etcd: store.Clients[0].Addr().String()}
	if r.Port, err = freePort(); err != nil {
		return err
	}
	failed := make(chan error, 1)
	args, err := apiserverArgs(o, dir, r)
	if err != nil {
		return err
	}
	go func() { failed <- serve(args, o.verbose) }()

	// Standard input is the leash: when the parent ends, however it ends, so do we.
	closed := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(closed)
	}()

	announced := make(chan error, 1)
	go func() {
		announced <- announce(o, dir, r)
	}()
	for {
		select {
		case err := <-announced:
			if err != nil {
				return err
			}
			if o.kubeconfig != "" {
				defer os.Remove(o.kubeconfig)
			}
			announced = nil // said once; from here on only the end can come
		case err := <-failed:
			select {
			case <-stop: // kube-apiserver heard the same signal
				return nil
			default:
			}
			if err == nil {
				err = errors.New("ended by itself")
			}
			return fmt.Errorf("kube-apiserver: %w", err)
		case <-stop:
			return nil
		case <-closed:
			return nil
		}
	}
}

func startEtcd(dir string, verbose bool) (*embed.Etcd, error) {
	cfg := embed.NewConfig()
	cfg.Dir = filepath.Join(dir, "etcd")
	cfg.UnsafeNoFsync = true
	cfg.LogLevel = "error"
	if verbose {
		cfg.LogLevel = "info"
	}
	// Both ports are chosen here: etcd's own HTTP gateway dials the advertised one, so it cannot be 0.
	client, err := loopbackURL()
	if err != nil {
		return nil, err
	}
	peer, err := loopbackURL()
	if err != nil {
		return nil, err
	}
	cfg.ListenClientUrls = []url.URL{client}
	cfg.AdvertiseClientUrls = []url.URL{client}
	cfg.ListenPeerUrls = []url.URL{peer}
	cfg.AdvertisePeerUrls = []url.URL{peer}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	store, err := embed.StartEtcd(cfg)
	if err != nil {
		return nil, err
	}
	select {
	case <-store.Server.ReadyNotify():
		return store, nil
	case <-time.After(30 * time.Second):
		store.Close()
		return nil, errors.New("not ready after 30 s")
	}
}

func apiserverArgs(o options, dir string, r ready) ([]string, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	keyFile := filepath.Join(dir, "sa.key")
	block := &pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}
	if err := os.WriteFile(keyFile, pem.EncodeToMemory(block), 0o600); err != nil {
		return nil, err
	}
	tokens := filepath.Join(dir, "tokens.csv")
	users := fmt.Sprintf("%s,admin,admin,system:masters\n%s,nobody,nobody\n", r.Token, r.UserToken)
	if err := os.WriteFile(tokens, []byte(users), 0o600); err != nil {
		return nil, err
	}
	args := []string{
		"--etcd-servers=http://" + r.Etcd,
		"--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", r.Port),
		"--cert-dir=" + filepath.Join(dir, "certs"),
		"--service-cluster-ip-range=10.0.0.0/24",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + keyFile,
		"--service-account-signing-key-file=" + keyFile,
		// There is no controller manager that would create the default ServiceAccount of a namespace.
		"--disable-admission-plugins=ServiceAccount",
		"--authorization-mode=" + o.authorization,
		"--token-auth-file=" + tokens,
		"--endpoint-reconciler-type=none",
		"--etcd-compaction-interval=0",
		"--allow-privileged",
	}
	if o.featureGates != "" {
		args = append(args, "--feature-gates="+o.featureGates)
	}
	if !o.verbose {
		args = append(args, "--v=0")
	}
	return args, nil
}

// serve runs kube-apiserver until it ends.
func serve(args []string, verbose bool) error {
	cmd := app.NewAPIServerCommand()
	cmd.SetArgs(args)
	cmd.SilenceUsage = true
	if !verbose {
		// klog writes to os.Stderr at the time of the call; the process's own messages come after its end.
		if null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0); err == nil {
			silenced := os.Stderr
			os.Stderr = null
			defer func() { os.Stderr = silenced }()
		}
	}
	return cmd.Execute()
}

// announce waits until the server is ready, writes the kubeconfig and prints the one line.
func announce(o options, dir string, r ready) error {
	insecure := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // our own loopback server
	defer insecure.CloseIdleConnections()
	client := &http.Client{Transport: insecure, Timeout: 5 * time.Second}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	for {
		err := probe(ctx, client, r)
		if err == nil {
			break
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("kube-apiserver is not ready: %w", err)
		case <-time.After(50 * time.Millisecond):
		}
	}
	ca, err := os.ReadFile(filepath.Join(dir, "certs", "apiserver.crt"))
	if err != nil {
		return err
	}
	r.CA = string(ca)
	if o.kubeconfig != "" {
		if err := writeKubeconfig(o.kubeconfig, r); err != nil {
			return err
		}
	}
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = fmt.Println(string(line))
	return err
}

func probe(ctx context.Context, client *http.Client, r ready) error {
	address := fmt.Sprintf("https://127.0.0.1:%d/readyz", r.Port)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+r.Token)
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", response.Status, strings.TrimSpace(string(body)))
	}
	return nil
}

// writeKubeconfig writes two contexts, "admin" (current) and "nobody", and shows the file only when it is whole.
func writeKubeconfig(file string, r ready) error {
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters:
- name: rig
  cluster:
    server: https://127.0.0.1:%d
    certificate-authority-data: %s
users:
- name: admin
  user:
    token: %s
- name: nobody
  user:
    token: %s
contexts:
- name: admin
  context:
    cluster: rig
    user: admin
- name: nobody
  context:
    cluster: rig
    user: nobody
current-context: admin
`, r.Port, base64.StdEncoding.EncodeToString([]byte(r.CA)), r.Token, r.UserToken)
	if err := os.WriteFile(file+".part", []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(file+".part", file)
}

func randomToken() string {
	raw := make([]byte, 16)
	_, _ = rand.Read(raw) // never fails: it ends the process if the system has no randomness
	return hex.EncodeToString(raw)
}

func loopbackURL() (url.URL, error) {
	port, err := freePort()
	return url.URL{Scheme: "http", Host: fmt.Sprintf("127.0.0.1:%d", port)}, err
}

// freePort is a port that was free a moment ago.
func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}
