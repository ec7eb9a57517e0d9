"""Makes the API server, which listens on loopback, reachable where pods expect it.

A program: `python -m kube.cluster.forward ADDRESS PORT TO_PORT`. It copies bytes, so certificates
are the API server's own.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys


async def serve(address: str, port: int, to_port: int) -> None:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            onward_reader, onward_writer = await asyncio.open_connection("127.0.0.1", to_port)
        except OSError:
            writer.close()
            return
        await asyncio.gather(_copy(reader, onward_writer), _copy(onward_reader, writer))

    server = await asyncio.start_server(connected, address, port)
    await server.serve_forever()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    with contextlib.suppress(OSError):
        writer.close()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
