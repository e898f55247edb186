/* SPDX-License-Identifier: MIT */
/*
 * The functions of libnats that we use. The library is loaded when the first NATS address is used:
 * programs that use none start no slower, and run where it is not installed.
 */
#ifndef RUT_STREAM_NATS_LIB_H
#define RUT_STREAM_NATS_LIB_H

#include <nats/nats.h>

struct rut_err;

/* clang-format off */
#define RUT_NATS_FUNCTIONS(F)                                                                      \
	F(nats_Open) F(nats_GetLastError) F(natsStatus_GetText) F(natsInbox_Create) F(natsInbox_Destroy)                \
	F(natsOptions_Create) F(natsOptions_Destroy) F(natsOptions_SetServers)                     \
	F(natsOptions_SetTimeout) F(natsOptions_SetName) F(natsOptions_SetSecure)                  \
	F(natsOptions_SetAllowReconnect) F(natsOptions_SetMaxReconnect)                            \
	F(natsOptions_SetReconnectWait) F(natsOptions_SetRetryOnFailedConnect)                     \
	F(natsOptions_SetUserInfo) F(natsOptions_SetNKeyFromSeed)                                  \
	F(natsOptions_SetUserCredentialsFromFiles) F(natsOptions_LoadCATrustedCertificates)        \
	F(natsOptions_LoadCertificatesChain) F(natsOptions_SetPingInterval)                        \
	F(natsOptions_SetMaxPingsOut) F(natsOptions_SetWriteDeadline) F(natsOptions_SetNoRandomize) \
	F(natsOptions_SetErrorHandler)                                                             \
	F(natsConnection_Connect) F(natsConnection_Close) F(natsConnection_Destroy)                \
	F(natsConnection_GetMaxPayload) F(natsConnection_GetLastError) F(natsConnection_IsClosed)  \
	F(natsConnection_JetStream) F(natsConnection_Publish) F(natsConnection_PublishRequest)     \
	F(natsConnection_Request) F(natsConnection_Status) F(natsConnection_FlushTimeout) F(natsConnection_SubscribeSync) F(natsConnection_Subscribe)    \
	F(natsSubscription_NextMsg) F(natsSubscription_Fetch) F(natsSubscription_Destroy)          \
	F(natsMsg_Create) F(natsMsg_Destroy) F(natsMsg_GetSubject) F(natsMsg_GetReply)             \
	F(natsMsg_GetData) F(natsMsg_GetDataLength) F(natsMsg_Ack) F(natsMsg_NakWithDelay)         \
	F(natsMsg_Term) F(natsMsg_GetMetaData) F(jsMsgMetaData_Destroy) F(natsMsg_IsNoResponders) F(natsMsgList_Destroy)                           \
	F(jsCtx_Destroy) F(jsOptions_Init) F(jsPubOptions_Init) F(js_PublishMsg)                   \
	F(js_PublishMsgAsync) F(jsPubAck_Destroy) F(jsStreamConfig_Init) F(js_AddStream)           \
	F(js_GetStreamInfo) F(jsStreamInfo_Destroy) F(jsConsumerConfig_Init) F(js_AddConsumer)     \
	F(jsConsumerInfo_Destroy) F(jsSubOptions_Init) F(js_PullSubscribe) F(kvConfig_Init)        \
	F(js_CreateKeyValue) F(js_KeyValue) F(kvStore_PutString) F(kvStore_Keys) F(kvStore_Delete) \
	F(kvKeysList_Destroy) F(kvStore_Destroy)
/* clang-format on */

struct rut_nats_lib {
#define RUT_NATS_MEMBER(name) __typeof__(&name) name;
	RUT_NATS_FUNCTIONS(RUT_NATS_MEMBER)
#undef RUT_NATS_MEMBER
};

/* Valid after rut_nats_load(). */
extern struct rut_nats_lib rut_nats;

/*
 * Loads and starts the library, once. It starts threads, so not before a fork that continues to use
 * it. Returns 0 or -errno.
 */
int rut_nats_load(struct rut_err *err);

#endif
