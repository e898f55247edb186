/* SPDX-License-Identifier: MIT */
/* The numbers of LTTng's protocol of live viewers, for both of its sides. */
#ifndef RUT_STREAM_LIVE_WIRE_H
#define RUT_STREAM_LIVE_WIRE_H

/* We speak 2.4's commands only; the lesser of the two versions counts. */
enum { RUT_LIVE_MAJOR = 2, RUT_LIVE_MINOR = 4, RUT_LIVE_CLIENT = 1 };

enum rut_live_command {
	RUT_LIVE_CONNECT = 1,
	RUT_LIVE_LIST = 2,
	RUT_LIVE_ATTACH = 3,
	RUT_LIVE_INDEX = 4,
	RUT_LIVE_PACKET = 5,
	RUT_LIVE_METADATA = 6,
	RUT_LIVE_STREAMS = 7,
	RUT_LIVE_CREATE = 8,
	RUT_LIVE_DETACH = 9,
};

enum { RUT_LIVE_OK = 1 }; /* the status of success, of all commands */
enum { RUT_LIVE_ATTACH_UNKNOWN = 3 };
enum {
	RUT_LIVE_INDEX_RETRY = 2,
	RUT_LIVE_INDEX_HUP = 3,
	RUT_LIVE_INDEX_ERR = 4,
	RUT_LIVE_INDEX_INACTIVE = 5
};
enum { RUT_LIVE_PACKET_RETRY = 2, RUT_LIVE_PACKET_ERR = 3 };
enum { RUT_LIVE_METADATA_NONE = 2, RUT_LIVE_METADATA_ERR = 3 };
enum { RUT_LIVE_STREAMS_NONE = 2, RUT_LIVE_STREAMS_ERR = 3, RUT_LIVE_STREAMS_CLOSED = 4 };
enum { RUT_LIVE_FLAG_METADATA = 1, RUT_LIVE_FLAG_STREAM = 2 };
enum { RUT_LIVE_SEEK_BEGIN = 1, RUT_LIVE_SEEK_LAST = 2 };

/* Bytes of texts in messages. */
enum { RUT_LIVE_HOST = 64, RUT_LIVE_NAME = 255, RUT_LIVE_PATH = 4096 };

#endif
