// interop-grpc-http3 is a client of gRPC over HTTP/3, around the libraries connect-go and quic-go: it runs gRPC's
// interoperability tests, as google.golang.org/grpc/interop does over HTTP/2. Its test is in
// crates/cli/tests/it/proxy_suites.rs.
//
//	interop-grpc-http3 PORT CA_FILE CASE   exits with 0 if the case passes
package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"time"

	"connectrpc.com/connect"
	"github.com/quic-go/quic-go/http3"
	pb "google.golang.org/grpc/interop/grpc_testing"
)

// No case takes longer.
const patience = 30 * time.Second

const (
	service  = "/grpc.testing.TestService/"
	initial  = "x-grpc-test-echo-initial"
	trailing = "x-grpc-test-echo-trailing-bin"
)

// Sizes of the messages of streams, as gRPC's description of the tests has them.
var (
	requestSizes  = []int{27182, 8, 1828, 45904}
	responseSizes = []int32{31415, 9, 2653, 58979}
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 4 {
		log.Fatal("usage: interop-grpc-http3 PORT CA_FILE CASE")
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		log.Fatal(err)
	}
}

func run(port, authority, name string) error {
	pem, err := os.ReadFile(authority)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return errors.New("no authority in " + authority)
	}
	test, ok := cases[name]
	if !ok {
		return errors.New("no such case: " + name)
	}
	transport := &http3.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	defer transport.Close()
	context, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return test(context, &server{"https://localhost:" + port, &http.Client{Transport: transport}})
}

// A server is where the service is.
type server struct {
	url    string
	client *http.Client
}

func method[Request, Response any](s *server, path string) *connect.Client[Request, Response] {
	return connect.NewClient[Request, Response](s.client, s.url+path, connect.WithGRPC())
}

func (s *server) unary() *connect.Client[pb.SimpleRequest, pb.SimpleResponse] {
	return method[pb.SimpleRequest, pb.SimpleResponse](s, service+"UnaryCall")
}

func (s *server) duplex() *connect.Client[pb.StreamingOutputCallRequest, pb.StreamingOutputCallResponse] {
	return method[pb.StreamingOutputCallRequest, pb.StreamingOutputCallResponse](s, service+"FullDuplexCall")
}

var cases = map[string]func(context.Context, *server) error{
	"empty_unary":                 emptyUnary,
	"large_unary":                 largeUnary,
	"client_streaming":            clientStreaming,
	"server_streaming":            serverStreaming,
	"ping_pong":                   pingPong,
	"empty_stream":                emptyStream,
	"timeout_on_sleeping_server":  timeoutOnSleepingServer,
	"cancel_after_begin":          cancelAfterBegin,
	"cancel_after_first_response": cancelAfterFirstResponse,
	"status_code_and_message":     statusCodeAndMessage,
	"special_status_message":      specialStatusMessage,
	"custom_metadata":             customMetadata,
	"unimplemented_method":        unimplementedMethod,
	"unimplemented_service":       unimplementedService,
}

func payload(size int) *pb.Payload {
	return &pb.Payload{Body: make([]byte, size)}
}

func asked(size int32) []*pb.ResponseParameters {
	return []*pb.ResponseParameters{{Size: size}}
}

func hasCode(err error, code connect.Code) error {
	if connect.CodeOf(err) != code || err == nil {
		return fmt.Errorf("expected %v: %v", code, err)
	}
	return nil
}

func emptyUnary(context context.Context, s *server) error {
	_, err := method[pb.Empty, pb.Empty](s, service+"EmptyCall").CallUnary(context, connect.NewRequest(&pb.Empty{}))
	return err
}

func largeUnary(context context.Context, s *server) error {
	request := &pb.SimpleRequest{ResponseSize: 314159, Payload: payload(271828)}
	response, err := s.unary().CallUnary(context, connect.NewRequest(request))
	if err != nil {
		return err
	}
	if size := len(response.Msg.GetPayload().GetBody()); size != 314159 {
		return fmt.Errorf("%d bytes", size)
	}
	return nil
}

func clientStreaming(context context.Context, s *server) error {
	path := service + "StreamingInputCall"
	stream := method[pb.StreamingInputCallRequest, pb.StreamingInputCallResponse](s, path).CallClientStream(context)
	sum := 0
	for _, size := range requestSizes {
		if err := stream.Send(&pb.StreamingInputCallRequest{Payload: payload(size)}); err != nil {
			return err
		}
		sum += size
	}
	response, err := stream.CloseAndReceive()
	if err != nil {
		return err
	}
	if int(response.Msg.GetAggregatedPayloadSize()) != sum {
		return fmt.Errorf("%d bytes of %d", response.Msg.GetAggregatedPayloadSize(), sum)
	}
	return nil
}

func serverStreaming(context context.Context, s *server) error {
	request := &pb.StreamingOutputCallRequest{}
	for _, size := range responseSizes {
		request.ResponseParameters = append(request.ResponseParameters, &pb.ResponseParameters{Size: size})
	}
	path := service + "StreamingOutputCall"
	client := method[pb.StreamingOutputCallRequest, pb.StreamingOutputCallResponse](s, path)
	stream, err := client.CallServerStream(context, connect.NewRequest(request))
	if err != nil {
		return err
	}
	defer stream.Close()
	for _, size := range responseSizes {
		if !stream.Receive() {
			return fmt.Errorf("it ends early: %w", stream.Err())
		}
		if got := len(stream.Msg().GetPayload().GetBody()); got != int(size) {
			return fmt.Errorf("%d bytes of %d", got, size)
		}
	}
	if stream.Receive() {
		return errors.New("one message too many")
	}
	return stream.Err()
}

// Each message waits for the answer to the one before: both directions are open at the same time.
func pingPong(context context.Context, s *server) error {
	stream := s.duplex().CallBidiStream(context)
	for at, size := range requestSizes {
		request := &pb.StreamingOutputCallRequest{ResponseParameters: asked(responseSizes[at]), Payload: payload(size)}
		if err := stream.Send(request); err != nil {
			return err
		}
		response, err := stream.Receive()
		if err != nil {
			return err
		}
		if got := len(response.GetPayload().GetBody()); got != int(responseSizes[at]) {
			return fmt.Errorf("%d bytes of %d", got, responseSizes[at])
		}
	}
	return ends(stream.CloseRequest(), stream)
}

func emptyStream(context context.Context, s *server) error {
	stream := s.duplex().CallBidiStream(context)
	return ends(stream.CloseRequest(), stream)
}

func ends(err error, stream *connect.BidiStreamForClient[pb.StreamingOutputCallRequest, pb.StreamingOutputCallResponse]) error {
	if err != nil {
		return err
	}
	if _, err := stream.Receive(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("expected the end: %v", err)
	}
	return stream.CloseResponse()
}

func timeoutOnSleepingServer(parent context.Context, s *server) error {
	context, cancel := context.WithTimeout(parent, time.Millisecond)
	defer cancel()
	stream := s.duplex().CallBidiStream(context)
	// The time may be over before.
	_ = stream.Send(&pb.StreamingOutputCallRequest{Payload: payload(27182)})
	_, err := stream.Receive()
	return hasCode(err, connect.CodeDeadlineExceeded)
}

func cancelAfterBegin(parent context.Context, s *server) error {
	context, cancel := context.WithCancel(parent)
	path := service + "StreamingInputCall"
	stream := method[pb.StreamingInputCallRequest, pb.StreamingInputCallResponse](s, path).CallClientStream(context)
	if err := stream.Send(&pb.StreamingInputCallRequest{Payload: payload(1)}); err != nil {
		return err
	}
	cancel()
	_, err := stream.CloseAndReceive()
	return hasCode(err, connect.CodeCanceled)
}

func cancelAfterFirstResponse(parent context.Context, s *server) error {
	context, cancel := context.WithCancel(parent)
	defer cancel()
	stream := s.duplex().CallBidiStream(context)
	request := &pb.StreamingOutputCallRequest{ResponseParameters: asked(31415), Payload: payload(27182)}
	if err := stream.Send(request); err != nil {
		return err
	}
	if _, err := stream.Receive(); err != nil {
		return err
	}
	cancel()
	_, err := stream.Receive()
	return hasCode(err, connect.CodeCanceled)
}

// The status is in the trailers.
func isStatus(err error, code connect.Code, message string) error {
	var status *connect.Error
	if !errors.As(err, &status) || status.Code() != code || status.Message() != message {
		return fmt.Errorf("expected %v %q: %v", code, message, err)
	}
	return nil
}

func statusCodeAndMessage(context context.Context, s *server) error {
	status := &pb.EchoStatus{Code: 2, Message: "test status message"}
	_, err := s.unary().CallUnary(context, connect.NewRequest(&pb.SimpleRequest{ResponseStatus: status}))
	if err := isStatus(err, connect.CodeUnknown, status.Message); err != nil {
		return err
	}
	stream := s.duplex().CallBidiStream(context)
	if err := stream.Send(&pb.StreamingOutputCallRequest{ResponseStatus: status}); err != nil {
		return err
	}
	if err := stream.CloseRequest(); err != nil {
		return err
	}
	_, err = stream.Receive()
	return isStatus(err, connect.CodeUnknown, status.Message)
}

func specialStatusMessage(context context.Context, s *server) error {
	message := "\t\ntest with whitespace\r\nand Unicode BMP ☺ and non-BMP 😈\t\n"
	status := &pb.EchoStatus{Code: 2, Message: message}
	_, err := s.unary().CallUnary(context, connect.NewRequest(&pb.SimpleRequest{ResponseStatus: status}))
	return isStatus(err, connect.CodeUnknown, message)
}

func customMetadata(context context.Context, s *server) error {
	value := "test_initial_metadata_value"
	binary := []byte{0xab, 0xab, 0xab}
	encoded := connect.EncodeBinaryHeader(binary)
	isEchoed := func(fields, trailers http.Header) error {
		echoed, err := connect.DecodeBinaryHeader(trailers.Get(trailing))
		if fields.Get(initial) != value || err != nil || !bytes.Equal(echoed, binary) {
			return fmt.Errorf("not echoed: %v %v", fields, trailers)
		}
		return nil
	}
	request := connect.NewRequest(&pb.SimpleRequest{ResponseSize: 1, Payload: payload(1)})
	request.Header().Set(initial, value)
	request.Header().Set(trailing, encoded)
	response, err := s.unary().CallUnary(context, request)
	if err != nil {
		return err
	}
	if err := isEchoed(response.Header(), response.Trailer()); err != nil {
		return err
	}
	stream := s.duplex().CallBidiStream(context)
	stream.RequestHeader().Set(initial, value)
	stream.RequestHeader().Set(trailing, encoded)
	message := &pb.StreamingOutputCallRequest{ResponseParameters: asked(1), Payload: payload(1)}
	if err := stream.Send(message); err != nil {
		return err
	}
	if _, err := stream.Receive(); err != nil {
		return err
	}
	if err := ends(stream.CloseRequest(), stream); err != nil {
		return err
	}
	return isEchoed(stream.ResponseHeader(), stream.ResponseTrailer())
}

func unimplementedMethod(context context.Context, s *server) error {
	client := method[pb.Empty, pb.Empty](s, service+"UnimplementedCall")
	_, err := client.CallUnary(context, connect.NewRequest(&pb.Empty{}))
	return hasCode(err, connect.CodeUnimplemented)
}

func unimplementedService(context context.Context, s *server) error {
	client := method[pb.Empty, pb.Empty](s, "/grpc.testing.UnimplementedService/UnimplementedCall")
	_, err := client.CallUnary(context, connect.NewRequest(&pb.Empty{}))
	return hasCode(err, connect.CodeUnimplemented)
}
