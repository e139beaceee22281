package main

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/quic-go/quic-go/qlogwriter"
)

// Settings are what the server is to do beside serving.
type settings struct {
	// Each client has to prove its address first.
	Retry bool
	// Speaks QUIC version 2 alone.
	OtherVersion bool `json:"other_version"`
}

func runServer(certificate, key, root string, settings settings) error {
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		return err
	}
	socket, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return err
	}
	transport := &quic.Transport{
		Conn:                socket,
		VerifySourceAddress: func(net.Addr) bool { return settings.Retry },
		ConnContext:         remember,
	}
	versions := []quic.Version{quic.Version1}
	if settings.OtherVersion {
		versions = []quic.Version{quic.Version2}
	}
	config := http3.ConfigureTLSConfig(&tls.Config{Certificates: []tls.Certificate{pair}})
	listener, err := transport.ListenEarly(config, &quic.Config{
		Versions: versions,
		Tracer:   tracer,
	})
	if err != nil {
		return err
	}
	server := &http3.Server{Handler: handler(root)}
	ended := make(chan error, 1)
	go func() { ended <- server.ServeListener(listener) }()
	if err := say(map[string]int{"port": socket.LocalAddr().(*net.UDPAddr).Port}); err != nil {
		return err
	}
	return stop(server, ended)
}

// stop lets what is on its way end when the time has come.
func stop(server *http3.Server, ended <-chan error) error {
	signals, release := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer release()
	select {
	case err := <-ended:
		return err
	case <-signals.Done():
	}
	grace, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return server.Shutdown(grace)
}

// What the context of a connection and its requests holds.
type (
	traced   struct{}
	verified struct{}
)

// remember keeps what quic-go counts of a connection, and whether its client had to prove its address.
func remember(ctx context.Context, client *quic.ClientInfo) (context.Context, error) {
	ctx = context.WithValue(ctx, traced{}, new(trace))
	return context.WithValue(ctx, verified{}, client.AddrVerified), nil
}

func tracer(ctx context.Context, _ bool, _ quic.ConnectionID) qlogwriter.Trace {
	return ctx.Value(traced{}).(*trace)
}

func handler(root string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /echo", echo)
	mux.HandleFunc("GET /hints", hints)
	mux.HandleFunc("GET /fields/{size}", fields)
	mux.Handle("/", http.FileServerFS(os.DirFS(root)))
	return telling{mux}
}

// telling adds to each response what is known of its connection: to its head, whether there was a
// Retry, to its end, how often keys have changed.
type telling struct{ http.Handler }

func (t telling) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	retried := r.Context().Value(verified{}).(bool)
	w.Header().Set("X-Retried", strconv.FormatBool(retried))
	t.Handler.ServeHTTP(w, r)
	updates := r.Context().Value(traced{}).(*trace).seen().KeyUpdates
	w.Header().Set(http.TrailerPrefix+"X-Key-Updates", strconv.Itoa(updates))
}

// echo gives a body back as it comes, and its trailers.
func echo(w http.ResponseWriter, r *http.Request) {
	http.NewResponseController(w).Flush()
	if _, err := io.Copy(flushing{w}, r.Body); err != nil {
		panic(http.ErrAbortHandler)
	}
	for name, values := range r.Trailer {
		w.Header()[http.TrailerPrefix+name] = values
	}
}

// flushing holds nothing back.
type flushing struct{ http.ResponseWriter }

func (f flushing) Write(bytes []byte) (int, error) {
	n, err := f.ResponseWriter.Write(bytes)
	if err == nil {
		err = http.NewResponseController(f.ResponseWriter).Flush()
	}
	return n, err
}

// hints sends an interim response first (RFC 8297).
func hints(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Link", "</style.css>; rel=preload")
	w.WriteHeader(http.StatusEarlyHints)
	w.WriteHeader(http.StatusOK)
	_, _ = io.WriteString(w, "after hints")
}

// fields answers with fields of the size in the path, in KiB, together.
func fields(w http.ResponseWriter, r *http.Request) {
	size, err := strconv.Atoi(r.PathValue("size"))
	if err != nil {
		http.NotFound(w, r)
		return
	}
	const one = 16
	for i := range (size + one - 1) / one {
		value := strings.Repeat("x", min(one, size-i*one)<<10)
		w.Header().Set("X-Large-"+strconv.Itoa(i), value)
	}
}
