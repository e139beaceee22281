package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

// No plan takes longer unless it says so, and no connection that a peer has forgotten is waited for.
const patience = 40 * time.Second

// A plan is what the client is to do, on one connection.
type plan struct {
	Requests []request
	// How often all requests are made; 0 is once.
	Repeat int
	// How many are on their way at the same time; 0 is one.
	Parallel int
	// How long it may take at most; 0 is patience.
	Seconds int
	// Offers QUIC version 2 first.
	OtherVersion bool `json:"other_version"`
	// How often the client's port changes while the first response comes.
	Moves int
	// Prints a line when the first response has begun, and reads on when a line has come.
	Announce bool
	// Connects twice, and resumes the first connection's session.
	Resume bool
	// Waits for the server to close the connection.
	Linger bool
	// The server's address.
	host string
}

// A report is what came of a plan.
type report struct {
	// Of the last round.
	Responses []response `json:"responses"`
	// Responses of the rounds before that were not as in the last.
	Unlike  int    `json:"unlike"`
	Version string `json:"version"`
	Moves   int    `json:"moves"`
	Resumed bool   `json:"resumed"`
	Early   bool   `json:"early"`
	// The HTTP/3 code with which the server closed the connection.
	Closed *uint64 `json:"closed"`
	events
}

type client struct {
	plan
	conn  *quic.Conn
	http  *http3.ClientConn
	trace *trace
	moves int
	// What moves leave open until the end.
	transports []*quic.Transport
}

// runClient does what a plan says. server is a port of this machine, or address and port.
func runClient(server, authority string, plan plan) error {
	plan.host = "127.0.0.1"
	port := server
	if host, number, err := net.SplitHostPort(server); err == nil {
		plan.host, port = host, number
	}
	config, err := trust(authority)
	if err != nil {
		return err
	}
	config.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	limit := patience
	if plan.Seconds > 0 {
		limit = time.Duration(plan.Seconds) * time.Second
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if plan.Resume {
		if err := prepare(ctx, port, config, plan); err != nil {
			return err
		}
	}
	client, err := connect(ctx, port, config, plan)
	if err != nil {
		return err
	}
	defer client.close()
	report, err := client.work(ctx, "https://localhost:"+port)
	if err != nil {
		return err
	}
	return say(report)
}

func trust(authority string) (*tls.Config, error) {
	pem, err := os.ReadFile(authority)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, errors.New("no certificate in " + authority)
	}
	return &tls.Config{RootCAs: roots, ServerName: "localhost", NextProtos: []string{"h3"}}, nil
}

// prepare makes a connection whose session the next one can resume.
func prepare(ctx context.Context, port string, config *tls.Config, plan plan) error {
	first, err := connect(ctx, port, config, plan)
	if err != nil {
		return err
	}
	defer first.close()
	_, err = first.work(ctx, "https://localhost:"+port)
	return err
}

func connect(ctx context.Context, port string, config *tls.Config, plan plan) (*client, error) {
	client := &client{plan: plan, trace: new(trace)}
	transport, err := client.transport()
	if err != nil {
		return nil, err
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return nil, err
	}
	versions := []quic.Version{quic.Version1}
	if plan.OtherVersion {
		versions = []quic.Version{quic.Version2, quic.Version1}
	}
	server := &net.UDPAddr{IP: net.ParseIP(plan.host), Port: number}
	client.conn, err = transport.DialEarly(ctx, server, config, &quic.Config{
		Versions: versions,
		Tracer:   client.trace.tracer,
	})
	if err != nil {
		return nil, err
	}
	client.http = (&http3.Transport{}).NewClientConn(client.conn)
	return client, nil
}

// transport is a port of its own.
func (c *client) transport() (*quic.Transport, error) {
	local := new(net.UDPAddr)
	if c.host == "127.0.0.1" {
		local.IP = net.IPv4(127, 0, 0, 1)
	}
	socket, err := net.ListenUDP("udp4", local)
	if err != nil {
		return nil, err
	}
	transport := &quic.Transport{Conn: socket}
	c.transports = append(c.transports, transport)
	return transport, nil
}

func (c *client) work(ctx context.Context, root string) (*report, error) {
	report := new(report)
	for range max(c.Repeat, 1) {
		responses, err := c.round(ctx, root)
		if err != nil {
			return nil, err
		}
		report.Unlike += unlike(report.Responses, responses)
		report.Responses = responses
	}
	if c.Linger {
		report.Closed = c.closed(ctx)
	}
	state := c.conn.ConnectionState()
	report.Version = state.Version.String()
	report.Resumed = state.TLS.DidResume
	report.Early = state.Used0RTT
	report.Moves = c.moves
	report.events = c.trace.seen()
	return report, nil
}

// round makes each request once.
func (c *client) round(ctx context.Context, root string) ([]response, error) {
	responses := make([]response, len(c.Requests))
	failures := make([]error, len(c.Requests))
	running := make(chan struct{}, max(c.Parallel, 1))
	var all sync.WaitGroup
	for i, request := range c.Requests {
		running <- struct{}{}
		all.Go(func() {
			responses[i], failures[i] = c.exchange(ctx, root, request, i == 0)
			<-running
		})
	}
	all.Wait()
	return responses, errors.Join(failures...)
}

func unlike(former, latter []response) int {
	count := 0
	for i := range former {
		if former[i].Status != latter[i].Status || former[i].SHA256 != latter[i].SHA256 {
			count++
		}
	}
	return count
}

// move goes on from another port (RFC 9000 section 9).
func (c *client) move(ctx context.Context) error {
	transport, err := c.transport()
	if err != nil {
		return err
	}
	path, err := c.conn.AddPath(transport)
	if err != nil {
		return err
	}
	if err := path.Probe(ctx); err != nil {
		return err
	}
	c.moves++
	return path.Switch()
}

// pause lets whoever started this program do something while a response is on its way.
func pause() error {
	if err := say(map[string]string{"event": "begun"}); err != nil {
		return err
	}
	_, err := input.ReadString('\n')
	return err
}

// closed is the code with which the server closes; nil if it doesn't.
func (c *client) closed(ctx context.Context) *uint64 {
	select {
	case <-ctx.Done():
		return nil
	case <-c.conn.Context().Done():
	}
	var reason *quic.ApplicationError
	if !errors.As(context.Cause(c.conn.Context()), &reason) || !reason.Remote {
		return nil
	}
	code := uint64(reason.ErrorCode)
	return &code
}

func (c *client) close() {
	// Of what the server answers to that nothing is left to be seen.
	_ = c.conn.CloseWithError(quic.ApplicationErrorCode(http3.ErrCodeNoError), "")
	for _, transport := range c.transports {
		_ = transport.Close()
	}
}
