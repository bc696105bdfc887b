// An application of kafkajs. See Application.java for its arguments, calls and answers.
const { createInterface } = require('readline')
const { Kafka, logLevel } = require('kafkajs')

const LENGTH = 48
const [bootstrap, topic, settings] = process.argv.slice(2)
const of = Object.fromEntries(settings.split(',').map(setting => setting.split('=')))
const kafka = new Kafka({
  brokers: [bootstrap],
  logLevel: logLevel.NOTHING,
  requestTimeout: Number(of['request.timeout.ms']),
  enforceRequestTimeout: true,
  retry: { initialRetryTime: Number(of['retry.backoff.ms']) },
})
const producer = kafka.producer({
  idempotent: true,
  transactionalId: of['transactional.id'],
  maxInFlightRequests: Number(of['max.in.flight.requests.per.connection']),
  allowAutoTopicCreation: false,
})
const sent = new Map()

const send = record => {
  const [name, times] = record.split('*')
  const value = name.repeat(LENGTH * Number(times || 1))
  const sending = producer.send({ topic, acks: -1, messages: [{ value, partition: 0 }] })
  sending.catch(() => {}) // told by `await`
  sent.set(name, sending)
}

const answer = async ([call, ...words]) => {
  if (call === 'send') {
    words.forEach(send)
    return 'done'
  }
  const [{ baseOffset }] = await sent.get(words[0])
  return `stored ${baseOffset}`
}

const main = async () => {
  await producer.connect()
  for await (const line of createInterface({ input: process.stdin })) {
    console.log(await answer(line.split(' ')).catch(error => `failed ${error.type || error.name}`))
  }
  process.exit(0)
}

main()
