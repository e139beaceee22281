package main

import (
	"context"
	"sync"

	"github.com/quic-go/quic-go"
	h3log "github.com/quic-go/quic-go/http3/qlog"
	"github.com/quic-go/quic-go/qlog"
	"github.com/quic-go/quic-go/qlogwriter"
)

// events are what quic-go tells nowhere but in its log.
type events struct {
	// Of both directions, without the keys of the hand-shake.
	KeyUpdates int `json:"key_updates"`
	// Packets of version negotiation that came.
	OtherVersions int  `json:"other_versions"`
	GoAway        bool `json:"go_away"`
}

// A trace counts events of a connection instead of writing them down.
type trace struct {
	lock   sync.Mutex
	counts events
}

func (t *trace) tracer(context.Context, bool, quic.ConnectionID) qlogwriter.Trace { return t }

func (t *trace) AddProducer() qlogwriter.Recorder { return t }

func (t *trace) RecordEvent(event qlogwriter.Event) {
	t.lock.Lock()
	defer t.lock.Unlock()
	switch event := event.(type) {
	case qlog.KeyUpdated:
		if event.Trigger != qlog.KeyUpdateTLS {
			t.counts.KeyUpdates++
		}
	case qlog.VersionNegotiationReceived:
		t.counts.OtherVersions++
	case h3log.FrameParsed:
		if _, is := event.Frame.Frame.(h3log.GoAwayFrame); is {
			t.counts.GoAway = true
		}
	}
}

func (t *trace) Close() error { return nil }

func (t *trace) seen() events {
	t.lock.Lock()
	defer t.lock.Unlock()
	return t.counts
}
