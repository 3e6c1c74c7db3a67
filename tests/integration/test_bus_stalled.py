"""A message bus that does not read for a while does not cost the daemon its connection."""

from __future__ import annotations

import asyncio
import os
import signal

from dbus_fast import Message, MessageType
from integration.harness import Client

from edgettsd.bus import INTERFACE, OBJECT_PATH, Connection


def test_a_thousand_signals_to_a_stopped_bus_all_arrive(bus):
    async def body() -> None:
        sender = await Connection.open(address=bus.address)
        async with Client(bus.address) as client:
            lost = asyncio.create_task(sender.lost())
            os.kill(bus.process.pid, signal.SIGSTOP)
            try:
                for n in range(1000):
                    sender.send(Message.new_signal(OBJECT_PATH, INTERFACE, "Finished", "ts", [n, "x" * 200]))
                    await asyncio.sleep(0)
                await asyncio.sleep(0.2)
                assert not lost.done(), "a full socket was taken for a lost bus"
            finally:
                os.kill(bus.process.pid, signal.SIGCONT)
            await client.until(lambda: len(client.signals) == 1000, "1000 signals")
            assert [body[0] for _, body in client.signals] == list(range(1000))
            assert await sender.call_bus("GetId")
            lost.cancel()
        sender.close()

    asyncio.run(body())


def test_descriptors_survive_a_full_socket(bus):
    async def body() -> None:
        sender = await Connection.open(address=bus.address)
        received: list[int] = []
        async with Client(bus.address) as client:
            client.bus.add_message_handler(lambda message: received.extend(message.unix_fds))
            reader, writer = os.pipe()
            os.kill(bus.process.pid, signal.SIGSTOP)
            try:
                for n in range(600):
                    fds = [writer] if n % 100 == 99 else []
                    signature, body = ("tsh", [n, "x" * 400, 0]) if fds else ("ts", [n, "x" * 400])
                    sender.send(
                        Message(
                            destination=client.bus.unique_name,
                            path=OBJECT_PATH,
                            interface=INTERFACE,
                            member="Finished",
                            message_type=MessageType.SIGNAL,
                            signature=signature,
                            body=body,
                            unix_fds=fds,
                        )
                    )
                await asyncio.sleep(0.2)
            finally:
                os.kill(bus.process.pid, signal.SIGCONT)
            await client.until(lambda: len(client.signals) == 600, "600 signals")
            assert [body[0] for _, body in client.signals] == list(range(600))
            assert len(received) == 6
            for fd in received:
                os.write(fd, b"x")
                os.close(fd)
            assert os.read(reader, 100) == b"x" * 6
            os.close(reader)
            os.close(writer)
        sender.close()

    asyncio.run(body())


def test_the_daemon_outlives_a_stopped_bus(start):
    """Utterances end by the hundred while the bus is stopped: the daemon stays, and no signal is lost."""
    system = start(engine="fake:1000", config="[engine]\nqueue_limit = 1000\nclient_limit = 1000\n")
    count = 400

    async def body() -> None:
        async with Client(system.bus.address) as client:
            await client.call("Pause")
            ids = [await client.speak("fake:seconds=0.08") for _ in range(count)]
            await client.call("Resume")
            os.kill(system.bus.process.pid, signal.SIGSTOP)
            try:
                await asyncio.sleep(2)
                assert system.process.poll() is None, system.log
            finally:
                os.kill(system.bus.process.pid, signal.SIGCONT)
            reasons = [await client.finished(utterance) for utterance in ids]
            assert reasons == ["completed"] * count
            assert [len(client.of("Finished", utterance)) for utterance in ids] == [1] * count
            assert await client.call("AbortAll") == 0

    asyncio.run(body())
